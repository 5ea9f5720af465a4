"""Builds the console's third-party libraries from the packages and versions in vendor.toml.

The built files are committed, so only this script needs npm.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

VENDOR = Path(__file__).parents[1] / "service" / "opwire_service" / "console" / "vendor"
_TABLE = VENDOR / "vendor.toml"
_LICENCES = "LICENSES.txt"


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder:
        built = _build(table, Path(folder))
    differing = [name for name, data in built.items() if _read(VENDOR / name) != data]
    if check:
        sys.stdout.writelines(f"{name} differs from what its packages build\n" for name in differing)
        return 1 if differing else 0
    for name, data in built.items():
        (VENDOR / name).write_bytes(data)
    _TABLE.write_text(_updated(_TABLE.read_text(encoding="utf-8"), built), encoding="utf-8")
    return 0


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _build(table: dict[str, Any], folder: Path) -> dict[str, bytes]:
    """Returns the built files by name."""
    wanted = [f"{name}@{row['version']}" for name, row in table["packages"].items()]
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
    install = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--save-exact")
    subprocess.run([*install, *wanted, table["bundler"]], cwd=folder, check=True)
    modules = folder / "node_modules"
    used: set[str] = set()
    built = {}
    for name, row in table["files"].items():
        if "copy" in row:
            built[name] = (modules / row["copy"]).read_bytes()
        else:
            built[name] = _bundle(folder, name, row["source"], used)
    if unlisted := used - table["packages"].keys():
        raise SystemExit(f"vendor.toml does not list {', '.join(sorted(unlisted))}")
    built[_LICENCES] = _licences(table["packages"], modules)
    return built


def _bundle(folder: Path, name: str, source: str, used: set[str]) -> bytes:
    """Builds one minified module, and adds the packages in it to ``used``."""
    entry, made, meta = folder / f"entry-{name}", folder / "out" / name, folder / "meta.json"
    entry.write_text(source, encoding="utf-8")
    # Type checkers also read imported modules, but these are third-party code.
    options = (
        "--banner:js=// @ts-nocheck",
        "--bundle",
        "--minify",
        "--format=esm",
        "--target=es2022",
        "--charset=utf8",
        "--legal-comments=none",
    )
    command = ["node_modules/.bin/esbuild", entry.name, *options, f"--outfile={made}", f"--metafile={meta}"]
    subprocess.run([*command, "--log-level=warning"], cwd=folder, check=True)
    for path in json.loads(meta.read_text(encoding="utf-8"))["inputs"]:
        if found := re.search(r"node_modules/((?:@[^/]+/)?[^/]+)/", path):
            used.add(found[1])
    return made.read_bytes()


def _licences(packages: dict[str, Any], modules: Path) -> bytes:
    texts = []
    for name, row in packages.items():
        text = next((modules / name).glob("LICEN[SC]E*")).read_text(encoding="utf-8").strip()
        texts.append(f"{name} {row['version']} ({row['licence']}), {row['source']}\n\n{text}\n")
    return f"\n{'-' * 80}\n\n".join(texts).encode()


def _updated(text: str, built: dict[str, bytes]) -> str:
    """Returns the table with the hash and size of each file updated."""
    for name, data in built.items():
        begin = text.find(f'[files."{name}"]')
        if begin >= 0:
            head, rest = text[:begin], text[begin:]
            rest = re.sub('sha256 = ".*"', f'sha256 = "{hashlib.sha256(data).hexdigest()}"', rest, count=1)
            text = head + re.sub("bytes = .*", f"bytes = {len(data)}", rest, count=1)
    return text


if __name__ == "__main__":
    sys.exit(main())
