"""JSON as DxDispatch parses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire import ProblemCode, RequestError
from opwire.dxdispatch import read_text
from tests.strategies.json_values import JSON


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("// first\n[1, 2] // last", [1, 2]),
        ("/* a\n // b */ [1, /* 2, */ 3]", [1, 3]),
        ("[1, 2,]", [1, 2]),
        ('{"a": [1 , ] , }', {"a": [1]}),
        ("[1, // one\n]", [1]),
        ('["// no, ]comment", "/* nor */ this,}", "\\"//\\\\"]', ["// no, ]comment", "/* nor */ this,}", '"//\\']),
        ("{} and whatever follows ]", {}),
        ('\ufeff"mark"', "mark"),
        ("[1e400]", [float("inf")]),
    ],
)
def test_text_is_parsed_as_by_dxdispatch(text, value):
    assert read_text(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1, column 1"),
        ("[1\n 2]", "line 2, column 2"),
        ("[,]", "line 1, column 2"),
        ("[1,,]", "line 1, column 4"),
        ('{"a":, }', "line 1, column 6"),
        ("/* open\n [1]", "line 1, column 1"),
        ("[/* two\nlines */ x]", "line 2, column 10"),
        ("{'a': 1}", "line 1, column 2"),
    ],
)
def test_errors_have_line_and_column(text, place):
    with pytest.raises(RequestError, match=place) as caught:
        read_text(text)
    assert caught.value.code is ProblemCode.INVALID_JSON


@pytest.mark.parametrize("text", [b'"\xff"', b"[" * 100_000, b"1" * 5000, b'{"a": 1, "a": 1}'])
def test_errors_without_a_line_and_column(text):
    with pytest.raises(RequestError) as caught:
        read_text(text)
    assert caught.value.code is ProblemCode.INVALID_JSON


BLANKS = st.sampled_from(["", " ", "\n", "// , ] }\n", '/* " , ] */', "/**/\t"])


def commented(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """Writes a value as text, with comments between its parts and trailing commas."""
    blank: str = draw(BLANKS)
    if isinstance(value, list):
        parts = [commented(item, draw) for item in value]
    elif isinstance(value, dict):
        parts = [f"{json.dumps(name)}{blank}:{commented(item, draw)}" for name, item in value.items()]
    else:
        return f"{blank}{json.dumps(value)}{draw(BLANKS)}"
    if parts and draw(st.booleans()):
        parts[-1] += f",{draw(BLANKS)}"
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{blank}{opening}{','.join(parts)}{draw(BLANKS)}{closing}"


@given(JSON, st.data())
def test_comments_and_trailing_commas_do_not_change_values(value, data):
    assert read_text(commented(value, data.draw)) == value
