"""Requests that came before but for their tensors and their id: found by the bytes around these, they are not parsed
again.

For requests so small that to parse them takes longer than to run them. A template knows nothing of heads and clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import pybase64

from opwire.wire import Buffer, ExecuteRequest, Payload
from opwire.wire.base64text import decoded_size

from .dialect import Completed
from .plan_cache import Prepared

_LARGEST = 4096
"""Bytes of a body whose request is kept, at most."""

_MOST = 1024
"""Templates that are kept; when there are more, all begin anew."""

_MOST_LAYOUTS = 4
"""Layouts that are kept of bodies of one length."""


class _Place(NamedTuple):
    """Where a tensor stands in a body, as base64 text or as it is, and how many bytes it has."""

    name: str
    begin: int
    end: int
    size: int
    is_text: bool


class Template(NamedTuple):
    """A request that came before.

    Attributes:
        request: as its protocol has parsed it; its tensors and its id are those of that time.
        execute: the operator that it runs.
        prepared: the plan of that.
        places: of its tensors.
        identity: where the client's id stands, if it has one.
    """

    request: Any
    execute: ExecuteRequest
    prepared: Prepared
    places: tuple[_Place, ...]
    identity: slice | None

    def identified(self, body: bytes) -> str | None:
        """The id in a body; None where it is not sure to be a string that means just itself."""
        try:
            text = body[self.identity].decode() if self.identity is not None else ""
        except ValueError:
            return None
        return text if text.isprintable() and not {'"', "\\"} & set(text) else None

    def tensors(self, body: bytes) -> Mapping[str, memoryview] | None:
        """The bytes of the tensors in a body; None where one is not base64 text of its size."""
        view, found = memoryview(body), dict[str, memoryview]()
        for name, begin, end, size, is_text in self.places:
            piece = view[begin:end]
            if is_text:
                try:
                    piece = memoryview(pybase64.b64decode(piece, validate=True))
                except ValueError:
                    return None
            if len(piece) != size:
                return None
            found[name] = piece
        return found


class _Layout(NamedTuple):
    """Bodies whose tensors and ids stand at the same places: what is around these, and their templates."""

    around: tuple[slice, ...]
    templates: dict[tuple[Hashable, bytes], Template]

    def key(self, context: Hashable, body: bytes) -> tuple[Hashable, bytes]:
        return context, b"".join(map(body.__getitem__, self.around))


class RequestTemplates:
    """The templates of a process."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[int, str | None], list[_Layout]] = {}
        self._count = 0

    def find(self, context: Hashable, body: Buffer, head_length: str | None) -> Template | None:
        """The template of a body.

        Args:
            context: see ``Dialect.context``.
            body: as received.
            head_length: the length of its JSON if a tail follows.
        """
        for layout in self._layouts.get((len(body), head_length), ()):
            found = layout.templates.get(layout.key(context, bytes(body)))
            if found is not None:
                return found
        return None

    def keep(
        self,
        context: Hashable,
        body: Buffer,
        head_length: str | None,
        request: object,
        done: Completed,
        identity: str | None,
    ) -> None:
        """Keeps a request that was run, if it can be told from the bytes around its tensors and its id.

        Args:
            request: as its protocol has parsed it.
            identity: see ``Dialect.identity``.
        """
        prepared, execute = done.prepared, done.execute
        if context is None or len(body) > _LARGEST or not prepared.inline or execute.is_graph or execute.places:
            return
        body = bytes(body)
        text = body if head_length is None else body[: int(head_length)]
        places, named = _find(text, execute.inputs), _quoted(text, identity) if identity else None
        descs = prepared.plan.inputs
        if places is None or any(descs[place.name].data_size_in_bytes != place.size for place in places):
            return
        template = Template(request, execute, prepared, places, named)
        if template.identified(body) != (identity or ""):
            return
        if self._count >= _MOST:
            self._layouts.clear()
            self._count = 0
        layouts = self._layouts.setdefault((len(body), head_length), [])
        around = _around(template, len(body))
        layout = next((found for found in layouts if found.around == around), None)
        if layout is None:
            layout = _Layout(around, {})
            layouts[_MOST_LAYOUTS - 1 :] = [layout]
        layout.templates[layout.key(context, body)] = template
        self._count += 1


def _find(text: bytes, inputs: Mapping[str, Payload]) -> tuple[_Place, ...] | None:
    """Where the tensors of a request stand: in its JSON or behind it; None where that is not certain."""
    end, places = len(text), list[_Place]()
    for name, payload in inputs.items():
        if isinstance(payload, memoryview):
            places.append(_Place(name, end, end + len(payload), len(payload), is_text=False))
            end += len(payload)
            continue
        if not isinstance(payload, str) or not payload or (place := _quoted(text, payload)) is None:
            return None
        places.append(_Place(name, place.start, place.stop, decoded_size(payload), is_text=True))
    return tuple(places)


def _quoted(text: bytes, string: str) -> slice | None:
    """Where a string of some JSON stands in it; None where that is not certain.

    Without a backslash each string stands in the JSON as it is. What has no quotation mark either and stands within two
    is a string then, since between two strings there is always something else.
    """
    if b"\\" in text:
        return None
    quoted = b'"%b"' % string.encode()
    if text.count(quoted) != 1:
        return None
    begin = text.index(quoted) + 1
    return slice(begin, begin + len(quoted) - 2)


def _around(template: Template, size: int) -> tuple[slice, ...]:
    """The parts of a body around its tensors and its id."""
    inside = [slice(place.begin, place.end) for place in template.places]
    if template.identity is not None:
        inside.append(template.identity)
    inside.sort(key=lambda part: part.start)
    return tuple(map(slice, [0, *(part.stop for part in inside)], [*(part.start for part in inside), size]))
