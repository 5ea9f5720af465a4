"""Requests that were seen before but for the bytes of their tensors: nothing else of them is read or checked again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeGuard, TypeVar

from opwire.tensor import Array
from opwire.wire import Buffer, ExecuteRequest, Place, places

from ..execution import Bound
from .plan_cache import Prepared

LARGEST = 32 * 1024
"""Bytes of a body up to which it is worth keeping: beyond, its tensors cost more than all else."""

_LARGEST_KEY = 4 * 1024

_CUTS = 4
"""Ways to cut bodies of one length that are tried."""

_Cut = tuple[tuple[int, int], ...]
"""Where the tensors of a body begin and end."""

T = TypeVar("T")


def is_small(body: Buffer) -> TypeGuard[bytes]:
    """Whether it is worth looking for a body, or keeping it."""
    return len(body) <= LARGEST and isinstance(body, bytes)


@dataclass(slots=True)
class Repeats(Generic[T]):
    """What was made of the requests seen last, by all their bytes but those of their tensors.

    Two bodies of the same length that agree outside the tensors of one of them are the same request, provided that what
    stands in the places of the tensors is base64, or a tail: both have no meaning but their own.

    Attributes:
        size: requests that are kept.
    """

    size: int
    _cuts: dict[int, tuple[_Cut, ...]] = field(default_factory=dict)
    _kept: OrderedDict[tuple[object, _Cut, bytes], T] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, kind: object, body: bytes) -> T | None:
        """What is kept of such a request.

        Args:
            kind: what the meaning of the body depends on besides its bytes.
            body: as received.
        """
        for cut in self._cuts.get(len(body), ()):
            key = (kind, cut, _around(body, cut))
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        return None

    def keep(self, kind: object, body: bytes, tensors: Iterable[tuple[int, int]], made: T) -> None:
        """Keeps what was made of a request.

        Args:
            tensors: where each begins and ends in the body.
        """
        cut = tuple(sorted(tensors))
        around = _around(body, cut)
        if len(around) > _LARGEST_KEY:
            return
        known = self._cuts.get(len(body), ())
        if cut not in known:
            self._cuts[len(body)] = (cut, *known[: _CUTS - 1])
        self._kept[kind, cut, around] = made
        if len(self._kept) > self.size:
            self._kept.popitem(last=False)


def _around(body: bytes, cut: _Cut) -> bytes:
    """A body without its tensors."""
    if len(cut) == 1:
        [(start, stop)] = cut
        return body[:start] + body[stop:]
    pieces = []
    end = 0
    for start, stop in cut:
        pieces.append(body[end:start])
        end = stop
    return b"".join((*pieces, body[end:]))


class Ready(NamedTuple):
    """A plan on arrays of its own, which each run reads and writes anew.

    Attributes:
        inputs: for each the place of its bytes in the body, the sizes that these may have, and where they belong.
        buffers: of the outputs.
        run: computes them.
        device: that does so.
    """

    inputs: Sequence[tuple[Place, Container[int], memoryview]]
    buffers: Mapping[str, Array]
    run: Bound
    device: str


@dataclass(slots=True, eq=False)
class Repeat:
    """A request without its tensors, which stand in the same places of the body whenever it is sent.

    Attributes:
        request: as parsed, without inputs.
        prepared: its plan.
        places: of the inputs.
        ready: what runs it, once it has run.
    """

    request: ExecuteRequest
    prepared: Prepared
    places: Sequence[Place]
    ready: Ready | None = None

    @property
    def tensors(self) -> list[tuple[int, int]]:
        """Where each input begins and ends in the body."""
        return [(place.start, place.stop) for place in self.places]


def repeat(body: bytes, head_length: str | None, request: ExecuteRequest, prepared: Prepared) -> Repeat | None:
    """What is to be kept of a request that was answered; None if its tensors cannot be told apart.

    Args:
        body: as received.
        head_length: of its JSON head if a tail follows.
        request, prepared: what was made of it.
    """
    found = places(body, head_length, request.inputs)
    if found is None:
        return None
    return Repeat(request._replace(inputs={}), prepared, found)
