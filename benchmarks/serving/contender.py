"""The description of a server: how to install and start it, and how to write its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from .cases import Case

SERVERS = Path(__file__).with_name("servers")


@dataclass(frozen=True, slots=True)
class Counter:
    """A number within the body that changes with every request and keeps its number of digits."""

    first: int
    last: int
    step: int


@dataclass(frozen=True, slots=True)
class Request:
    """A POST request.

    Attributes:
        path: path of the request.
        headers: its headers.
        body: the body; with a counter, the two parts around it.
        counter: the number between the two parts.
    """

    path: str
    headers: Mapping[str, str]
    body: tuple[bytes, ...]
    counter: Counter | None = None

    def content(self, number: int | None = None) -> bytes:
        """Returns the body, with the given number in its counter if it has one; by default the first number."""
        if self.counter is None:
            return self.body[0]
        before, after = self.body
        return before + b"%d" % (self.counter.first if number is None else number) + after


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request; header names are in lower case."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Form:
    """One way to send a tensor and receive the indices.

    Attributes:
        name: name in the table.
        encoding: encoding of the tensor; forms of the same encoding are compared.
        request: writes the request for a case.
        answer: reads the indices from a reply, in any shape.
        cases: names of the cases measured with this form.
    """

    name: str
    encoding: Literal["base64", "binary"]
    request: Callable[[Case], Request]
    answer: Callable[[Case, Reply], NDArray[Any]]
    cases: tuple[str, ...] = ("small", "medium", "large")


@dataclass(frozen=True, slots=True)
class Start:
    """The parameters of a server's start.

    Attributes:
        python: the interpreter of its environment.
        port: the port to listen on; the next one is free, too.
        device: opwire's device.
    """

    python: Path
    port: int
    device: str

    @property
    def bin(self) -> Path:
        return self.python.parent


def script(name: str) -> Callable[[Start], list[str]]:
    """Returns the command of a server that is a script in the servers folder."""
    return lambda start: [str(start.python), str(SERVERS / name), str(start.port)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server.

    Attributes:
        name: name on the command line.
        title: title in the table.
        package: the package whose version is reported.
        requirements: packages for its own environment; empty to share this program's.
        command: returns the command that starts it.
        environment: additional environment variables.
        forms: the forms of its requests.
        settings: a short description of its settings.
    """

    name: str
    title: str
    package: str
    requirements: tuple[str, ...] = ()
    command: Callable[[Start], list[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[Form, ...]
    settings: str
