"""The description of a server: how to install and start it, and how to write its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
from numpy.typing import NDArray

from .cases import Case

SERVERS = Path(__file__).with_name("servers")


@dataclass(frozen=True, slots=True)
class Request:
    """A POST request.

    Attributes:
        path: path of the request.
        headers: its headers.
        body: the body; with numbers, the two parts around them.
        numbers: the numbers between the parts, another one in each request; all have as many digits.
    """

    path: str
    headers: Mapping[str, str]
    body: tuple[bytes, ...]
    numbers: range | None = None

    def content(self) -> bytes:
        """Returns the body, with the first number."""
        return self.body[0] if self.numbers is None else (b"%d" % self.numbers[0]).join(self.body)


@dataclass(frozen=True, slots=True)
class Form:
    """One way to send a tensor and receive the indices.

    Attributes:
        name: name in the table.
        encoding: encoding of the tensor; forms of the same encoding are compared.
        request: writes the request for a case.
        answer: reads the indices from a response, in any shape.
        cases: names of the cases measured with this form.
    """

    name: str
    encoding: Literal["base64", "binary"]
    request: Callable[[Case], Request]
    answer: Callable[[Case, httpx.Response], NDArray[Any]]
    cases: tuple[str, ...] = ("small", "medium", "large")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server.

    Attributes:
        name: name on the command line.
        title: title in the table.
        package: the package whose version is reported.
        requirements: packages for its own environment; empty to share this program's.
        start: the command that starts it, with ``{python}``, the folder ``{bin}`` of that, the folder ``{servers}``,
            the ``{port}``, after which the next one is free, too, and opwire's ``{device}``.
        environment: additional environment variables.
        forms: the forms of its requests.
        settings: a short description of its settings.
    """

    name: str
    title: str
    package: str
    requirements: tuple[str, ...] = ()
    start: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[Form, ...]
    settings: str

    def command(self, python: Path, port: int, device: str) -> list[str]:
        known = {"python": python, "bin": python.parent, "servers": SERVERS, "port": port, "device": device}
        return [each.format(**known) for each in self.start]
