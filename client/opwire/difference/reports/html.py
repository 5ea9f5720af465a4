"""A page that shows a comparison: one file, which needs no network."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files

from ..results import Differences

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<main class="report" id="report"></main>
<noscript><p>This page needs JavaScript.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script}
showReport(JSON.parse(document.getElementById("data").textContent), document.getElementById("report"));
</script>
</body>
</html>
"""


def to_html(found: Differences) -> str:
    """Returns a comparison as a page. It contains the JSON of the comparison, which the console reads, too."""
    data = json.dumps(found.to_json(), allow_nan=False).replace("<", "\\u003c")
    style = "\n".join(_read(name) for name in ("tokens.css", "base.css", "report.css"))
    title = escape(f"{found.subject} against {found.side}")
    return _PAGE.format(title=title, style=style, data=data, script=_read("report.js"))


def _read(name: str) -> str:
    return (files("opwire.difference.reports") / "page" / name).read_text("utf-8").strip()
