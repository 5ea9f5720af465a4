"""The table of a connection's states, and the page that shows it."""

from __future__ import annotations

from opwire_service.http.connection.states import PATIENCE, TRANSITIONS, Event, State
from tests.support.paths import ROOT


def shown(state: State) -> str:
    """Returns the row of a state in the documentation."""
    following = {} if state is State.CLOSING else TRANSITIONS[state]
    events = "<br>".join(
        f"`{event.name}`: {after.name}" for event, after in following.items() if event.name != "REFUSED"
    )
    limit = PATIENCE.get(state)
    return f"| `{state.name}` | {state.value} | {events} | {'' if limit is None else limit.value} |"


def test_the_page_shows_the_table():
    lines = (ROOT / "docs/architecture.md").read_text("utf-8").splitlines()
    first = lines.index(shown(State.IDLE))
    assert lines[first : first + len(State)] == list(map(shown, State))


def test_every_connection_can_be_refused_and_nothing_follows():
    assert {following[Event.REFUSED] for following in TRANSITIONS.values()} == {State.CLOSING}
    assert set(TRANSITIONS[State.CLOSING].values()) == {State.CLOSING}
    assert set(TRANSITIONS[State.CLOSING]) == set(Event)


def test_a_body_ends_before_the_next_request_begins():
    """From any state but the first two, a new head is only reached over IDLE."""
    before_heads = {state for state, following in TRANSITIONS.items() if State.HEAD in following.values()}
    assert before_heads == {State.IDLE, State.HEAD}


def test_all_states_are_reached():
    reached, left = {State.HEAD}, [State.HEAD]
    while left:
        found = set(TRANSITIONS[left.pop()].values()) - reached
        reached |= found
        left += found
    assert reached == set(State)
