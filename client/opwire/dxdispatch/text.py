"""Reads JSON like DxDispatch: comments and trailing commas are allowed, and anything after the first value is ignored.

Source: the parse flags of ``JsonParsers.cpp`` (full precision, comments, trailing commas, stop when done).
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from ..desc import show
from ..errors import ProblemCode, RequestError

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
# A comma directly after another comma or an opening bracket is kept, so that the JSON is rejected.
_TRAILING_COMMA = re.compile(rf"({_STRING}|[\[{{,:]\s*,)|,(?=\s*[\]}}])", re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")


def read_text(text: str | bytes) -> object:
    """Reads the first value of a JSON text with optional ``//`` and ``/* */`` comments and trailing commas.

    Args:
        text: the text; bytes are UTF-8, with or without a byte order mark.

    Raises:
        RequestError: INVALID_JSON, with the line and column. Objects with duplicate members are rejected too.
    """
    try:
        plain = _without_extras(text if isinstance(text, str) else text.decode("utf-8-sig"))
        value, _ = _DECODER.raw_decode(plain, len(plain) - len(plain.lstrip(" \t\r\n")))
    except UnicodeDecodeError as error:
        _refuse(f"byte {error.start} is not UTF-8")
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg} at line {error.lineno}, column {error.colno}")
    except RecursionError:
        _refuse("it is nested too deeply")
    except ValueError:  # Python's limit on converting text to integers
        _refuse("an integer has too many digits")
    return value


def _without_extras(text: str) -> str:
    """Replaces comments and trailing commas by blanks, so that positions in the text do not change."""
    text = _COMMENT.sub(lambda found: found[1] or _VISIBLE.sub(" ", found[0]), text)
    return _TRAILING_COMMA.sub(lambda found: found[1] or " ", text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        _refuse(f"an object has the member {show(twice)} twice")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _refuse(why: str) -> NoReturn:
    raise RequestError(ProblemCode.INVALID_JSON, f"not JSON: {why}") from None
