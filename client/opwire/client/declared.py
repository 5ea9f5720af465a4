"""The operator methods: one implementation, whose arguments and documentation come from the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter
from types import MethodType
from typing import Any, NamedTuple

from .keywords import unknown_argument, what_it_takes
from .operands import operator_call
from .options import CallOptions
from .signatures import Described, argument_name, signature_of


class OperatorMethod:
    """A method of an operator type, made when it is first used: its signature and documentation need the schema."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        method = method_of(self._operator)
        return method if instance is None else MethodType(method, instance)


@cache
def method_of(name: str) -> Callable[..., Any]:
    """Returns the function behind the method of an operator type."""
    from .docstrings import docstring_of  # only when it is needed, like the families

    arguments = _Arguments.of(name)

    def method(self: Any, *given: Any, **keywords: Any) -> Any:
        inputs, others, options = arguments.bind(given, keywords)
        return self._run(operator_call(name, inputs, others), options)

    method.__name__ = arguments.method
    method.__qualname__ = f"DeclaredMethods.{arguments.method}"
    method.__module__ = f"{__package__}.typed"
    method.__doc__ = docstring_of(name)
    method.__signature__ = signature_of(name)  # type: ignore[attr-defined]  # inspect and help read it
    return method


class _Arguments(NamedTuple):
    """The arguments of a method.

    Attributes:
        method: its name.
        defaults: all of them but the options, in their order, with their defaults.
        inputs: the input tensors, which may be given by position.
        members: the members of the struct that the other arguments stand for.
        required: the arguments without a default.
    """

    method: str
    defaults: Mapping[str, Any]
    inputs: Sequence[str]
    members: Mapping[str, str]
    required: Sequence[str]

    @classmethod
    def of(cls, name: str) -> _Arguments:
        """Returns those of an operator type."""
        own = list(signature_of(name).parameters.values())[1:-1]
        inputs, *others = Described.of(name)
        members = {argument_name(row["name"]): row["name"] for rows in others for row in rows}
        defaults = {each.name: each.default for each in own}
        required = [each.name for each in own if each.default is Parameter.empty]
        return cls(name.lower(), defaults, [argument_name(row["name"]) for row in inputs], members, required)

    def bind(self, given: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any], CallOptions]:
        """Returns the inputs in order, the other members by name, and the options.

        Raises:
            TypeError: there is no such argument, or one is missing or given twice.
        """
        values: dict[str, Any] = dict(self.defaults)
        options: dict[str, Any] = {}
        values.update(self._by_position(given, keywords))
        for name, value in keywords.items():
            (values if name in values else options)[name] = value
        if options and (wrong := options.keys() - CallOptions.__annotations__.keys()):
            raise TypeError(unknown_argument(self.method, min(wrong), list(self.defaults)))
        if missing := [name for name in self.required if values[name] is Parameter.empty]:
            raise TypeError(f"{self.method}() misses {', '.join(missing)}. {what_it_takes(list(self.defaults))}")
        others = {member: values[name] for name, member in self.members.items()}
        return [values[name] for name in self.inputs], others, CallOptions(**options)  # type: ignore[typeddict-item]  # checked

    def _by_position(self, given: Sequence[Any], keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(given) > len(self.inputs):
            taken = ", ".join(self.inputs) or "none"
            rest = "; the other arguments are keywords" if self.members else ""
            raise TypeError(f"{self.method}() takes its inputs by position: {taken}; {len(given)} are given{rest}")
        found = dict(zip(self.inputs, given, strict=False))
        if twice := found.keys() & keywords.keys():
            raise TypeError(f"{self.method}() is given {min(twice)} by position and as a keyword")
        return found
