"""Messages for arguments and methods that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from .options import CallOptions

F = TypeVar("F", bound=Callable[..., Any])


def explains_keywords(method: F) -> F:
    """Makes a method reject unknown keywords with a helpful message.

    The check runs before Python's own, which would first report the argument that a misspelled keyword was meant for
    as missing.
    """
    function = cast(FunctionType, method)
    code = function.__code__
    taken = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # all but self
    known = frozenset((*taken, *CallOptions.__annotations__))

    @wraps(method)
    def explained(*arguments: Any, **keywords: Any) -> Any:
        if not keywords.keys() <= known:
            raise TypeError(unknown_argument(function.__name__, min(keywords.keys() - known), taken))
        return method(*arguments, **keywords)

    return cast(F, explained)


def no_attribute(owner: object, name: str) -> str:
    """Returns the AttributeError for a missing attribute, with a hint: ``activation_relu`` for ``relu``."""
    said = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):  # copy, pickle, IPython and others ask for many
        return said
    names = sorted((each for each in dir(type(owner)) if not each.startswith("_")), key=len)
    word = name.lower()
    near = [each for each in names if f"_{word}_" in f"_{each}_"] or get_close_matches(word, names, n=1, cutoff=0.7)
    if len(word) > 2:
        near += [each for each in names if f"_{word}" in f"_{each}"]
    return f"{said}; did you mean {near[0]}?" if near else said


def unknown_argument(method: str, keyword: str, taken: Sequence[str]) -> str:
    """Returns the TypeError for an argument that a method does not have, with a hint and what it takes."""
    plain = {each.replace("_", ""): each for each in reversed(taken)}
    same = plain.get(keyword.replace("_", "").lower())  # DirectML's own spelling, such as transA
    near = [same] if same else get_close_matches(keyword, taken, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"{method}() has no argument {keyword!r}{hint} {what_it_takes(taken)}"


def what_it_takes(taken: Sequence[str]) -> str:
    """Returns a sentence about the arguments of a method."""
    return f"It takes {', '.join(taken)}, and the options {', '.join(CallOptions.__annotations__)}"
