"""The page that ``opwire diff --html`` writes; the browser tests open it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import opwire
from opwire.difference.reports import to_html
from tests.support.commands import opwire as command
from tests.support.paths import ROOT

X = np.ones((2, 2), np.float32)


def negation(name: str = "x") -> opwire.Graph:
    graph = opwire.Graph()
    graph.output("</script>", graph.element_wise_negate(graph.input(name, "FLOAT32", X.shape)))
    return graph


def test_the_page_contains_the_comparison():
    found = opwire.diff(negation(), {"</script>": X}, {"x": X})
    page = to_html(found)
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(data) == found.to_json()
    assert page.count("</script>") == 2


def test_the_page_needs_no_network():
    page = to_html(opwire.diff(negation(), {"</script>": -X}, {"x": X}))
    assert {*re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]+[^\s\"]*", page)} == {"http://www.w3.org/2000/svg"}
    assert "url(" not in page


def test_titles_are_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    negation().save("<b>&.json")
    np.savez("side.npz", **dict[str, Any]({"</script>": -X}))
    done = command("diff", "<b>&.json", "--against", "side.npz", "--input", f"x={_saved(tmp_path)}", "--html", "a.html")
    assert done.returncode == 0, done.stderr
    assert "<title>&lt;b&gt;&amp;.json against side.npz</title>" in Path("a.html").read_text()


def _saved(folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def test_the_colors_are_those_of_the_console():
    console = (ROOT / "service/opwire_service/console/css/tokens.css").read_text("utf-8")
    page = (ROOT / "client/opwire/difference/reports/page/tokens.css").read_text("utf-8")
    assert page == console[console.index(":root {") :]


def test_a_page_that_cannot_be_written_exits_with_2(tmp_path):
    negation().save(tmp_path / "net.json")
    done = command("diff", tmp_path / "net.json", "--against", "reference", "--html", tmp_path / "none" / "a.html")
    assert done.returncode == 2
    assert "No such file or directory" in done.stderr
