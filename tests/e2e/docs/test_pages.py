"""Code blocks in the README and the documentation do what they claim.

A Python block prints the text block below it. A shell command succeeds and prints the text below it, or JSON with the
members of the JSON below it, where ``"..."`` matches anything. A block with a title is the content of that file. A
block that cannot be run has a comment above it that says why: ``<!-- not run: reason -->``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import ROOT

ADDRESS = "127.0.0.1:8000"
LONGEST_README = 120

if not (ROOT / "docs").exists():
    pytest.skip("the pages are not here: these are the tests of an installed wheel", allow_module_level=True)

_BLOCK = re.compile(
    r"^(?P<why><!-- not run: .+ -->\n)?```(?P<language>\w+)(?P<info>.*)\n(?P<code>(?s:.*?))^```$", re.MULTILINE
)
_RUN = ("python", "sh")


@dataclass(frozen=True)
class Block:
    """A code block, and the expected output below it."""

    name: str
    language: str
    info: str
    code: str
    answer: str | None
    answer_language: str | None

    @property
    def title(self) -> str | None:
        """The file whose content it is."""
        found = _TITLE.search(self.info)
        return found and found[1]


def _blocks(page: Path) -> Iterator[Block]:
    found = list(_BLOCK.finditer(page.read_text(encoding="utf-8")))
    for i, each in enumerate(found):
        answer = found[i + 1] if i + 1 < len(found) and found[i + 1]["language"] in ("text", "json") else None
        if answer is not None and (answer["info"] or "\n\n#" in each.string[each.end() : answer.start()]):
            answer = None
        if each["why"] is None:
            text, language = (None, None) if answer is None else (answer["code"], answer["language"])
            name = f"{page.stem}-{each.string.count(chr(10), 0, each.start()) + 1}"
            yield Block(name, each["language"], each["info"], each["code"], text, language)


PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCKS = [block for page in PAGES for block in _blocks(page)]


_TITLE = re.compile(r'title="([^"]+)"')


def _params(*languages: str) -> list[object]:
    return [pytest.param(block, id=block.name) for block in BLOCKS if block.language in languages and not block.title]


def _run(command: list[str]) -> str:
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", _params("python"))
def test_python_prints_the_text_below_it(block: Block, server_url: str):
    assert block.answer is not None, "say below the block what it prints"
    code = block.code.replace(ADDRESS, server_url.removeprefix("http://"))
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        exec(compile(code, block.name, "exec"), {"__name__": "__main__"})  # a process for each would import all again
    assert printed.getvalue() == block.answer


COMMANDS = {
    page.stem: [block for block in _blocks(page) if block.language == "sh" and not block.title] for page in PAGES
}


@pytest.mark.parametrize("commands", [pytest.param(each, id=name) for name, each in COMMANDS.items() if each])
def test_commands_succeed_and_print_the_output_below_them(commands: list[Block], server_url: str):
    for block in commands:  # in one test, because some need what others above them did
        printed = _run(["sh", "-c", block.code.replace(f"http://{ADDRESS}", server_url)])
        if block.answer_language == "json":
            assert block.answer is not None
            assert_has(json.loads(printed), json.loads(block.answer))
        elif block.answer is not None:
            assert printed == block.answer, block.name
        else:
            assert printed, block.name


def assert_has(found: object, expected: object) -> None:
    """Checks that JSON contains everything in ``expected``."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        for name, value in expected.items():
            assert name in found
            assert_has(found[name], value)
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_has(one, other)
    elif expected != "...":
        assert found == expected


@pytest.mark.parametrize("block", _params("json"))
def test_json_blocks_are_valid(block: Block):
    json.loads(block.code)


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in BLOCKS if block.title])
def test_blocks_with_a_title_match_their_file(block: Block):
    """The files are examples, which have tests of their own."""
    assert block.title is not None
    assert (ROOT / block.title).read_text(encoding="utf-8") == block.code
    assert block.title.startswith("examples/")


def test_blocks_in_other_languages_say_why_they_are_not_run():
    assert {block.language for block in BLOCKS} <= {*_RUN, "json", "text"}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_README


def test_the_scripts_to_start_with_are_executable():
    for name in ("start", "test", "docs"):
        assert os.access(ROOT / "scripts" / name, os.X_OK)
