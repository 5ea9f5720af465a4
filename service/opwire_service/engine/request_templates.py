"""Templates of requests, which spare parsing a request that differs from an earlier one only in its tensors and its ID.

A template is found by the bytes around the tensors and the ID. It pays off for requests that take longer to parse than
to run, and is independent of header fields and clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import pybase64

from opwire.wire import Buffer, ExecuteRequest, Payload
from opwire.wire.base64text import decoded_size

from .dialect import Completed
from .plan_cache import Prepared

_MAX_BODY_BYTES = 4096
"""Maximum size of a body to make a template of, in bytes."""

_MAX_TEMPLATES = 1024
"""Maximum number of templates; beyond it, all are dropped."""

_MAX_LAYOUTS = 4
"""Maximum number of layouts per body length."""


class _Place(NamedTuple):
    """The position of a tensor in a body, as base64 text or as raw bytes, and its size in bytes."""

    name: str
    begin: int
    end: int
    size: int
    is_text: bool


class Template(NamedTuple):
    """An earlier request.

    Attributes:
        request: the request as parsed by its protocol, with the tensors and ID it had.
        execute: the operator it runs.
        prepared: the operator's plan.
        places: positions of its tensors.
        identity: position of the client's ID, if the request has one.
    """

    request: Any
    execute: ExecuteRequest
    prepared: Prepared
    places: tuple[_Place, ...]
    identity: slice | None

    def identified(self, body: bytes) -> str | None:
        """Returns the ID in a body, or None if it may not be a plain string without escapes."""
        try:
            text = body[self.identity].decode() if self.identity is not None else ""
        except ValueError:
            return None
        return text if text.isprintable() and not {'"', "\\"} & set(text) else None

    def tensors(self, body: bytes) -> Mapping[str, memoryview] | None:
        """Returns the bytes of the tensors in a body, or None if one is not base64 of the expected size."""
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


class _BodyLayout(NamedTuple):
    """Bodies with their tensors and IDs at the same positions: the slices around these, and the templates."""

    around: tuple[slice, ...]
    templates: dict[tuple[Hashable, bytes], Template]

    def key(self, context: Hashable, body: bytes) -> tuple[Hashable, bytes]:
        return context, b"".join(map(body.__getitem__, self.around))


class RequestTemplates:
    """The templates of a process."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[int, str | None], list[_BodyLayout]] = {}
        self._count = 0

    def find(self, context: Hashable, body: Buffer, head_length: str | None) -> Template | None:
        """Returns the template that matches a body, if there is one.

        Args:
            context: see ``Dialect.context``.
            body: body as received.
            head_length: length of its JSON head if a binary tail follows.
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
        """Keeps a completed request as a template, if the positions of its tensors and its ID are certain.

        Args:
            context: see ``Dialect.context``.
            body: body as received.
            head_length: length of its JSON head if a binary tail follows.
            request: the request as parsed by its protocol.
            done: the completed run.
            identity: see ``Dialect.identity``.
        """
        prepared, execute = done.prepared, done.execute
        if context is None or len(body) > _MAX_BODY_BYTES or not prepared.inline or execute.is_graph or execute.places:
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
        if self._count >= _MAX_TEMPLATES:
            self._layouts.clear()
            self._count = 0
        layouts = self._layouts.setdefault((len(body), head_length), [])
        around = _around(template, len(body))
        layout = next((found for found in layouts if found.around == around), None)
        if layout is None:
            layout = _BodyLayout(around, {})
            layouts[_MAX_LAYOUTS - 1 :] = [layout]
        layout.templates[layout.key(context, body)] = template
        self._count += 1


def _find(text: bytes, inputs: Mapping[str, Payload]) -> tuple[_Place, ...] | None:
    """Returns the positions of a request's tensors, in its JSON or its tail, or None if they are not certain."""
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
    """Returns the position of a string's content in JSON text, or None if it is not certain.

    In JSON without backslashes every string appears verbatim, and a match enclosed in quotation marks is a whole
    string, since two strings never touch. It must be the only match.
    """
    if b"\\" in text:
        return None
    quoted = b'"%b"' % string.encode()
    if text.count(quoted) != 1:
        return None
    begin = text.index(quoted) + 1
    return slice(begin, begin + len(quoted) - 2)


def _around(template: Template, size: int) -> tuple[slice, ...]:
    """Returns the slices of a body around its tensors and its ID."""
    inside = [slice(place.begin, place.end) for place in template.places]
    if template.identity is not None:
        inside.append(template.identity)
    inside.sort(key=lambda part: part.start)
    return tuple(map(slice, [0, *(part.stop for part in inside)], [*(part.start for part in inside), size]))
