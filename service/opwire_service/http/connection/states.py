"""What a connection expects from its client, and how far a response is: tables of what follows.

The first one is also in docs/architecture.md.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What a connection expects to receive, and what it does with it."""

    __hash__ = object.__hash__  # that of an Enum is a function in Python

    IDLE = "nothing, or the next request"
    HEAD = "the rest of a request head"
    BODY = "a body that the application reads in chunks"
    MEMORY = "a body that is received into a buffer of the application"
    REST = "the rest of a body that nobody reads: its request has been answered"
    CLOSING = "nothing: the connection is about to close, and whatever arrives is discarded"


class Event(Enum):
    """What happens on a connection."""

    __hash__ = object.__hash__  # that of an Enum is a function in Python

    BEGIN = "a request begins"
    HEAD_END = "the head is complete"
    FILL = "the application gives a buffer"
    BODY_END = "the body is complete"
    ANSWERED = "the response is complete"
    CUT_OFF = "the application gives up on the body, whose end can no longer be found"
    REFUSED = "the connection is to be closed with a last response"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.IDLE: {Event.BEGIN: State.HEAD, Event.ANSWERED: State.IDLE},
    State.HEAD: {Event.BEGIN: State.HEAD, Event.HEAD_END: State.BODY, Event.ANSWERED: State.HEAD},
    State.BODY: {Event.FILL: State.MEMORY, Event.BODY_END: State.IDLE, Event.ANSWERED: State.REST},
    State.MEMORY: {Event.BODY_END: State.IDLE, Event.CUT_OFF: State.CLOSING},
    State.REST: {Event.BODY_END: State.IDLE},
    State.CLOSING: dict.fromkeys(Event, State.CLOSING),
}
"""A connection begins in HEAD. REFUSED leads from every state to CLOSING."""

for _following in TRANSITIONS.values():
    _following[Event.REFUSED] = State.CLOSING


class Reply(Enum):
    """How far the response to a request is."""

    __hash__ = object.__hash__

    AWAITED = "it has not begun"
    BEGUN = "it has begun, and more of its body follows"
    COMPLETE = "it is complete"
    GONE = "nobody waits for it: the client disconnected before it was complete"


MESSAGES = {Reply.AWAITED: "http.response.start", Reply.BEGUN: "http.response.body"}
"""The ASGI message that a response expects next; the others expect none."""


class Patience(Enum):
    """Which limit of time applies to a client."""

    KEEP_ALIVE = "the time between two requests"
    HEAD = "the time to send what the server waits for before it can go on"
    BODY = "the pause between two pieces of a body"


PATIENCE = {
    State.IDLE: Patience.KEEP_ALIVE,
    State.HEAD: Patience.HEAD,
    State.REST: Patience.HEAD,
    State.MEMORY: Patience.BODY,
}
"""The limit in each state; there is none in the others."""
