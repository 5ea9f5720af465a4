"""What can be set on a client, or for a single call."""

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

LONGEST_TIMEOUT = 2**31 / 1000 - 1
"""Seconds; the wire carries milliseconds in 31 bits."""


class CallOptions(TypedDict, total=False):
    """The options of one call; what is not given is as set on the client.

    Attributes:
        feature_level: to check against, in any spelling that ``FeatureLevel.parse`` takes; None is the highest.
        timeout: seconds for the whole call, None for no limit. The server gives up after that time
            (DeadlineExceededError); the client waits a moment longer for that answer (TransportTimeout).
        encoding: of the tensors on the wire: "binary" (fastest), "base64" or "numbers" (both plain JSON).
        device: that shall run the operator, None for the server's choice.
        priority: 0 (first) to 9, None for the server's default.
        max_retries: how often the request may be sent again where that can help: the server was not reached or the
            connection broke, or the server's own time limit was over before the work began. A busy server (429 or 503)
            that says when to come back, as opwire does, is asked again at that time, a little later by chance, for as
            long as the timeout allows; this is not counted. The timeout holds for all tries and the waits between them.
    """

    feature_level: FeatureLevel | str | int | None
    timeout: float | None
    encoding: Encoding | Literal["binary", "base64", "numbers"]
    device: str | None
    priority: int | None
    max_retries: int


@dataclass(frozen=True, slots=True)
class EffectiveOptions:
    """The options in effect; see CallOptions."""

    feature_level: FeatureLevel | str | int | None = None
    timeout: float | None = 60.0
    encoding: Encoding = Encoding.BINARY
    device: str | None = None
    priority: int | None = None
    max_retries: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", encoding_of(self.encoding))
        if self.timeout is not None:
            object.__setattr__(self, "timeout", _seconds(self.timeout))
        if not _is_integer(self.max_retries) or self.max_retries < 0:
            raise ValueError(f"max_retries is {short_repr(self.max_retries)}; it is an integer, 0 or more")

    def updated(self, options: Mapping[str, Any]) -> EffectiveOptions:
        """These settings with some options changed.

        Raises:
            TypeError: there is no such option.
            ValueError: an option has no such value.
        """
        for name in options:
            if name not in CallOptions.__annotations__:
                raise TypeError(f"there is no option {name!r}; there are {', '.join(CallOptions.__annotations__)}")
        return replace(self, **options) if options else self

    def at_level(self, level: FeatureLevel | str | int | None) -> EffectiveOptions:
        """These settings with another feature level, if one is given."""
        return self if level is None else self.updated({"feature_level": level})

    def within(self, timeout: float | None) -> EffectiveOptions:
        """These settings for a try that has so many seconds."""
        return self if timeout == self.timeout else replace(self, timeout=timeout)

    def members(self) -> dict[str, object]:
        """The settings as members of a request; those left to the server are left out."""
        members = {
            "feature_level": level_name(self.feature_level),
            "timeout_ms": None if self.timeout is None else ceil(self.timeout * 1000),
            "device": self.device,
            "priority": self.priority,
        }
        return {name: value for name, value in members.items() if value is not None}


def _seconds(given: object) -> float:
    if not is_seconds(given) or not 0 < given <= LONGEST_TIMEOUT:
        what = f"a positive number of seconds, at most {LONGEST_TIMEOUT:.0f}, or None for no limit"
        raise ValueError(f"timeout is {short_repr(given)}; it is {what}")
    return float(given)


def _is_integer(value: object) -> bool:
    return as_integer(value) is not None


def encoding_of(given: object) -> Encoding:
    """The encoding of a name.

    Raises:
        ValueError: none has it.
    """
    if isinstance(given, Encoding):
        return given
    if not isinstance(given, str) or given not in list(Encoding):
        raise ValueError(f"encoding is {short_repr(given)}; it is one of {', '.join(Encoding)}")
    return Encoding(given)


def level_name(level: FeatureLevel | str | int | None) -> str | int | None:
    """A feature level as a request names it."""
    return str(level) if isinstance(level, FeatureLevel) else level
