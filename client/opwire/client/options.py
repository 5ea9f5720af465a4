"""The options of a client or of a single call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from reprlib import repr as short_repr
from typing import Any, Literal, TypedDict

from ..desc import as_integer
from ..level import FeatureLevel
from ..transport.retry import is_seconds
from ..wire import Encoding

MAX_TIMEOUT = 2**31 / 1000 - 1
"""Maximum timeout in seconds; the wire carries milliseconds in 31 bits."""


class CallOptions(TypedDict, total=False):
    """The options of one call. Options that are not given default to those of the client.

    Attributes:
        feature_level: the level to check against, in any spelling that ``FeatureLevel.parse`` accepts; None is the
            highest.
        strict: whether what the documentation forbids is a violation even if DirectML accepts it.
        timeout: seconds for the whole call, retries included; None for no limit. The server gives up after that time
            (DeadlineExceededError); the client waits a moment longer for that answer (TransportTimeout).
        encoding: encoding of the tensors on the wire: "binary" (fastest), "base64" or "numbers" (both plain JSON).
        device: the device to run the operator on; None lets the server choose.
        priority: 0 (first) to 9; None is the server's default.
        max_retries: how many times to retry a request where that can help: the server could not be reached, the
            connection broke, or the server's own time limit expired before the work began. Retries after a busy
            answer (429 or 503) with a Retry-After, which opwire always sends, do not count: they wait as long as it
            says, plus some jitter, for as long as the timeout allows.
    """

    feature_level: FeatureLevel | str | int | None
    strict: bool
    timeout: float | None
    encoding: Encoding | Literal["binary", "base64", "numbers"]
    device: str | None
    priority: int | None
    max_retries: int


@dataclass(frozen=True, slots=True)
class EffectiveOptions:
    """A complete set of options; see CallOptions."""

    feature_level: FeatureLevel | str | int | None = None
    timeout: float | None = 60.0
    encoding: Encoding = Encoding.BINARY
    device: str | None = None
    priority: int | None = None
    max_retries: int = 2
    strict: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", encoding_of(self.encoding))
        if self.timeout is not None:
            object.__setattr__(self, "timeout", _seconds(self.timeout))
        if not _is_integer(self.max_retries) or self.max_retries < 0:
            raise ValueError(f"max_retries is {short_repr(self.max_retries)}; it must be an integer of at least 0")

    def updated(self, options: Mapping[str, Any]) -> EffectiveOptions:
        """Returns these settings with some options changed.

        Raises:
            TypeError: there is no such option.
            ValueError: the value of an option is invalid.
        """
        for name in options:
            if name not in CallOptions.__annotations__:
                raise TypeError(f"there is no option {name!r}; there are {', '.join(CallOptions.__annotations__)}")
        return replace(self, **options) if options else self

    def checking(self, level: FeatureLevel | str | int | None, strict: bool | None) -> EffectiveOptions:
        """Returns these settings with another feature level or strictness, where given."""
        given = {"feature_level": level, "strict": strict}
        return self.updated({name: value for name, value in given.items() if value is not None})

    def contract(self) -> dict[str, object]:
        """Returns the members of a request that say what to check it against, without those left to the server."""
        level = level_name(self.feature_level)
        members: dict[str, object] = {} if level is None else {"feature_level": level}
        return {**members, "strict": True} if self.strict else members

    def within(self, timeout: float | None) -> EffectiveOptions:
        """Returns these settings with another timeout."""
        return self if timeout == self.timeout else replace(self, timeout=timeout)

    def members(self) -> dict[str, object]:
        """Returns the settings as members of a request, without those left to the server."""
        members = {
            "timeout_ms": None if self.timeout is None else ceil(self.timeout * 1000),
            "device": self.device,
            "priority": self.priority,
        }
        return self.contract() | {name: value for name, value in members.items() if value is not None}


def _seconds(given: object) -> float:
    if not is_seconds(given) or not 0 < given <= MAX_TIMEOUT:
        what = f"a positive number of seconds, at most {MAX_TIMEOUT:.0f}, or None for no limit"
        raise ValueError(f"timeout is {short_repr(given)}; it must be {what}")
    return float(given)


def _is_integer(value: object) -> bool:
    return as_integer(value) is not None


def encoding_of(given: object) -> Encoding:
    """Returns the encoding with a name.

    Raises:
        ValueError: none has it.
    """
    if isinstance(given, Encoding):
        return given
    if not isinstance(given, str) or given not in list(Encoding):
        raise ValueError(f"encoding is {short_repr(given)}; it must be one of {', '.join(Encoding)}")
    return Encoding(given)


def level_name(level: FeatureLevel | str | int | None) -> str | int | None:
    """Returns a feature level in the form of a request."""
    return str(level) if isinstance(level, FeatureLevel) else level
