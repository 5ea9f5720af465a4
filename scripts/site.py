"""MkDocs hooks: add pages and images from other folders, put pictures into pages, and check what pages load."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from scripts.drawing.palette import STYLE

ROOT = Path(__file__).resolve().parent.parent

CONSOLE = "service/opwire_service/console"
"""The console's folder: site and console share its colors, type and logo."""

ELSEWHERE = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "css/tokens.css": f"{CONSOLE}/css/tokens.css",
    "vendor/figtree.woff2": f"{CONSOLE}/vendor/figtree.woff2",
    "vendor/jetbrains-mono.woff2": f"{CONSOLE}/vendor/jetbrains-mono.woff2",
    "images/icon.svg": f"{CONSOLE}/icon.svg",
    "images/accuracy.svg": "benchmarks/results/accuracy.svg",
    "images/families.svg": "benchmarks/results/families.svg",
    "images/kernels.svg": "benchmarks/results/kernels.svg",
    "images/products.svg": "benchmarks/results/products.svg",
    "images/serving.png": "benchmarks/results/serving.png",
}
"""Files from outside docs, keyed by their path in the site."""

_SOURCES = {f"images/operators/{path.name}": path for path in (ROOT / CONSOLE / "pictures").glob("*.svg")}
"""The pictures of operators, by their path in the site."""

_PICTURE = re.compile(
    r'<img (?=[^>]*alt="(?P<alt>[^"]*)")[^>]*src="(?:\.\./)*(?P<path>images/(?:operators/)?\w+\.svg)"[^>]*>'
)
"""A picture that uses the colors of the page."""

_TEXT = re.compile(r">[^<>]+<")
_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+){2,}")
"""The name of an operator, or of its desc."""

_LOADED = re.compile(r"<(?:script|img|iframe|link(?=[^>]*stylesheet))[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\s\"'>]+")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the generated pages of the operator families to the navigation."""
    pages = sorted(path.stem for path in (ROOT / "docs/operators").glob("*.md"))
    (operators,) = (entry["Operators"] for entry in config.nav or () if "Operators" in entry)
    (families,) = (entry["Families"] for entry in operators if "Families" in entry)
    families += [f"operators/{name}.md" for name in pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files from outside docs."""
    files_elsewhere = ELSEWHERE | {name: str(path.relative_to(ROOT)) for name, path in _SOURCES.items()}
    for name, path in files_elsewhere.items():
        if name.endswith(".md"):
            # Their links are relative to the root of the repository, but in the site they are beside the pages of docs.
            content = (ROOT / path).read_text(encoding="utf-8").replace("](docs/", "](")
            files.append(File.generated(config, name, content=content))
        else:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Turns links to the console's pictures, which work in the repository, into links of the site."""
    return markdown.replace(f"../../{CONSOLE}/pictures/", "../images/operators/")


def on_page_content(html: str, **_: object) -> str:
    """Puts pictures into the page itself, where they follow its color scheme."""
    return _PICTURE.sub(_inline, html)


def _inline(found: re.Match[str]) -> str:
    path, alt = _SOURCES.get(found["path"], ROOT / "docs" / found["path"]), found["alt"]
    if not path.exists():
        return found[0]  # a diagram of measurements, with colors of its own
    picture = STYLE.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r' role="img"(?: aria-label="[^"]*")?', f' role="img" aria-label="{alt}"', picture, count=1)


def on_post_page(output: str, config: MkDocsConfig, **_: object) -> str:
    """Lets narrow screens break long names after an underscore, and rejects a page that loads from another host."""
    if found := _LOADED.search(output):
        raise PluginError(f"a page loads a resource from another host: {found[0]}")
    frame, begin, article = output.partition("<article")
    return frame + begin + _TEXT.sub(lambda found: _NAME.sub(_breakable, found[0]), article)


def _breakable(name: re.Match[str]) -> str:
    return name[0].replace("_", "_<wbr>")
