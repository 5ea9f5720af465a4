"""What there is to know of a server before it runs: how to install and start it, and how its requests look."""

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
    """A number within the body that is another one in every request, always with as many digits."""

    first: int
    last: int
    step: int


@dataclass(frozen=True, slots=True)
class Request:
    """A POST request.

    Attributes:
        body: with a counter, the two parts around it; else one part.
        counter: stands between the two parts.
    """

    path: str
    headers: Mapping[str, str]
    body: tuple[bytes, ...]
    counter: Counter | None = None

    def content(self, number: int | None = None) -> bytes:
        """The body; its counter, if there is one, shows the first or the given number."""
        if self.counter is None:
            return self.body[0]
        before, after = self.body
        return before + b"%d" % (self.counter.first if number is None else number) + after


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request; the names of its headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to send a tensor and to get the indices back.

    Attributes:
        name: in the table.
        encoding: of the tensor; forms of the same encoding are compared.
        request: for a case.
        answer: the indices in a reply, in any shape.
        cases: names of the cases that the form is measured with.
    """

    name: str
    encoding: Literal["base64", "binary"]
    request: Callable[[Case], Request]
    answer: Callable[[Case, Reply], NDArray[Any]]
    cases: tuple[str, ...] = ("small", "medium", "large")


@dataclass(frozen=True, slots=True)
class Start:
    """What a server is started with.

    Attributes:
        python: the interpreter of its environment.
        port: where it has to listen; the one behind it is free too.
        device: of opwire.
    """

    python: Path
    port: int
    device: str

    @property
    def bin(self) -> Path:
        return self.python.parent


def script(name: str) -> Callable[[Start], list[str]]:
    """The command of a server that is a script in the folder of servers."""
    return lambda start: [str(start.python), str(SERVERS / name), str(start.port)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server.

    Attributes:
        name: on the command line.
        title: in the table.
        package: whose version is reported.
        requirements: installed into an environment of its own; none if it shares the one of this program.
        command: that starts it.
        environment: further variables.
        forms: of its requests.
        settings: what was chosen for it, in a few words.
    """

    name: str
    title: str
    package: str
    requirements: tuple[str, ...] = ()
    command: Callable[[Start], list[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[Form, ...]
    settings: str
