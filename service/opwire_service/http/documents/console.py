"""The web console: its pages and files, read and compressed on first use.

The paths of files contain a hash of all files, so browsers may cache them forever; pages are always revalidated.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname, join, normpath

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

import opwire
from opwire.errors import NotFoundError, ProblemCode
from opwire.schema import find

from . import page_security
from .fixed import is_known, takes_gzip

FOLDER = Path(__file__).parents[2] / "console"
REPORT = Path(opwire.__file__).parent / "difference" / "reports" / "page"
"""The folder of what shows reports of comparisons, which comes with the client."""
_FROM_REPORT = {"report.js": "app/report.js", "report.css": "css/report.css"}

FILES = "/console"
PAGES = {"/": "index", "/operators/{name}": "operator", "/try": "try", "/live": "live", "/report": "report"}
NOT_FOUND = "missing"
PATHS = (*PAGES, f"{FILES}/{{version}}/{{path:path}}")
OPEN_PREFIXES = (f"{FILES}/", "/operators/")
"""Prefixes of further paths that need no API key, besides the pages."""

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
HEADERS = page_security.headers(
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types opwire",
) | {"cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin"}

_IMPORT = re.compile(r'^(?:import|export)\b[^;"]*"(\.{1,2}/[^"]+\.js)"', re.MULTILINE)
"""An import of another module, in the style of the console's modules."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, ready to send.

    Attributes:
        media_type: value of ``Content-Type``.
        packed: gzip-compressed content.
    """

    media_type: str
    packed: bytes


class Console:
    """The console's pages and files, read from a folder.

    Attributes:
        version: hash of all of them.
        files: files other than pages, by path relative to the folder.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        read = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        read |= {name: (REPORT / file).read_bytes() for file, name in _FROM_REPORT.items()}
        names = hashlib.sha256()
        for name, data in read.items():
            names.update(f"{name}\0{len(data)}\0".encode() + data)
        self.version = names.hexdigest()[:16]
        self.files = {
            name: File(_TYPES[Path(name).suffix], gzip.compress(data, mtime=0))
            for name, data in read.items()
            if not name.startswith("pages/")
        }
        imports = {name: _imports(name, data.decode()) for name, data in read.items() if name.startswith("app/")}
        self._pages = {
            page: _with_preloads(read[f"pages/{page}.html"].decode(), imports) for page in (*PAGES.values(), NOT_FOUND)
        }

    def page(self, name: str, base: str) -> bytes:
        """Returns a page.

        Args:
            name: name of the page.
            base: prefix of the server's paths, ending with a slash.
        """
        return self._pages[name].replace("{base}", base).replace("{files}", f"{base}console/{self.version}").encode()


def _imports(name: str, text: str) -> list[str]:
    return [normpath(join(dirname(name), path)) for path in _IMPORT.findall(text)]


def _with_preloads(page: str, imports: dict[str, list[str]]) -> str:
    """Adds preload links for all modules that a page's script imports, so that they load in parallel."""
    script = re.search(r'type="module" src="\{files\}/([^"]+)"', page)
    assert script is not None  # each page has one
    found = [script[1]]
    for name in found:
        found += [each for each in dict.fromkeys(imports.get(name, ())) if each not in found]
    links = "\n".join(f'<link rel="modulepreload" href="{{files}}/{name}">' for name in found[1:])
    return page.replace("{preloads}", links)


class _Routes:
    """Handlers of the pages and their files."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._reading = asyncio.Lock()

    async def console(self) -> Console:
        async with self._reading:
            if self._console is None:
                self._console = await asyncio.to_thread(Console)
        return self._console

    async def file(self, request: Request, version: str, path: str) -> Response:
        """Returns a file. A page from before an upgrade asks for another version, which is not found."""
        console = await self.console()
        found = console.files.get(path)
        if found is None or version != console.version:
            detail = f"nothing is served at {request.url.path}; the console may have been updated, so reload the page"
            raise NotFoundError(ProblemCode.NOT_FOUND, detail)
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return _answer(request, found.packed, found.media_type, headers)

    async def page(self, request: Request, name: str) -> Response:
        data = (await self.console()).page(name, _base(request))
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        headers = {"cache-control": "no-cache", "etag": tag}
        if is_known(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=HEADERS | headers)
        return _answer(request, gzip.compress(data, mtime=0), _TYPES[".html"], headers)

    async def not_found(self, request: Request) -> Response:
        """Returns the page for wrong links."""
        data = (await self.console()).page(NOT_FOUND, _base(request))
        return _answer(request, gzip.compress(data, mtime=0), _TYPES[".html"], {"cache-control": "no-store"}, 404)


def _base(request: Request) -> str:
    """Returns the prefix of the server's paths, ending with a slash."""
    root: str = request.scope.get("root_path", "")
    above = request.scope["path"].removeprefix(root).count("/") - 1
    # Behind a proxy the page may be requested without the trailing slash, which would break relative links.
    return f"{root}/" if root else "../" * above or "./"


def _answer(request: Request, packed: bytes, media_type: str, headers: dict[str, str], status: int = 200) -> Response:
    is_packed = takes_gzip(request.headers.get("accept-encoding", ""))
    headers = {**HEADERS, **headers, "vary": "Accept-Encoding", "content-type": media_type}
    if is_packed:
        headers["content-encoding"] = "gzip"
    return Response(packed if is_packed else gzip.decompress(packed), status, headers)


def install(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    """Adds the pages and their files, and returns the page for wrong links."""
    routes = _Routes()

    async def operators(request: Request) -> Response:
        return await routes.page(request, "index")

    async def operator(request: Request, name: str) -> Response:
        if find(name) is None:
            raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, f"{name[:60]!r} is not a DirectML operator type")
        return await routes.page(request, "operator")

    async def attempt(request: Request) -> Response:
        return await routes.page(request, "try")

    async def live(request: Request) -> Response:
        return await routes.page(request, "live")

    async def report(request: Request) -> Response:
        return await routes.page(request, "report")

    pages: tuple[Callable[..., Awaitable[Response]], ...] = (operators, operator, attempt, live, report, routes.file)
    for path, page in zip(PATHS, pages, strict=True):
        app.add_api_route(path, page, include_in_schema=False, response_model=None)
    return routes.not_found
