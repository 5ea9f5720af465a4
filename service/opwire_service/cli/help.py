"""The help of commands: commands and options in groups, and examples; and what a mistyped command may have meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

FILES, CONTRACT, SERVERS = "Descs, models and graphs", "The contract", "Servers"
"""Groups of commands."""

CONTEXT: dict[str, Any] = {"max_content_width": 100}

OTHER_WORDS = {
    "add": "put",
    "check": "validate",
    "compare": "diff",
    "compile": "warmup",
    "execute": "run",
    "help": "--help",
    "hash": "key",
    "register": "put",
    "remove": "delete",
    "rm": "delete",
    "show": "schema",
    "start": "serve",
    "version": "--version",
}
"""Commands by words that other programs have for them."""

_WHOLE_SENTENCE = 1000

C = TypeVar("C", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(self.epilog, formatter)


class Group(TyperGroup):
    """A group of commands, whose help has them in groups, too."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        _write_parameters(self.get_params(ctx), ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        width = max(map(len, shown))
        for name, each in shown.items():
            title = getattr(each, "rich_help_panel", None) or "Commands"
            groups.setdefault(title, []).append((name.ljust(width), each.get_short_help_str(_WHOLE_SENTENCE)))
        _write_sections(groups, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(self.epilog, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        given = args[0]
        if given not in self.commands and not given.startswith("-") and not ctx.resilient_parsing:
            meant = self.meant(given)
            hint = f" Did you mean '{ctx.command_path} {meant}'?" if meant else ""
            ctx.fail(f"No such command '{given}'.{hint}")
        return super().resolve_command(ctx, args)

    def meant(self, given: str) -> str | None:
        """Returns the command, or the option, that an unknown word probably stands for."""
        known = {*self.commands, *(flag for param in self.params for flag in param.opts), "--help"}
        other = OTHER_WORDS.get(given.lower())
        if other in known:
            return other
        return next(iter(get_close_matches(given.lower(), list(self.commands), 1)), None)


def command(app: typer.Typer, name: str, group: str | None, *examples: str) -> Callable[[C], C]:
    """Returns a decorator that adds a command.

    Args:
        app: what to add it to.
        name: name of the command.
        group: group in the help.
        examples: command lines shown at the end of its help.
    """
    return app.command(
        name, cls=Command, rich_help_panel=group, epilog="\n".join(examples), context_settings=dict(CONTEXT)
    )


def _write_parameters(parameters: Iterable[Any], ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in parameters:
        if record := parameter.get_help_record(ctx):
            otherwise = "Arguments" if parameter.param_type_name == "argument" else "Options"
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or otherwise, []).append(record)
    groups["Options"] = groups.pop("Options")  # --help comes last
    _write_sections(groups, formatter)


def _write_sections(groups: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for title, rows in groups.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _write_examples(examples: str | None, formatter: Any) -> None:
    """Writes command lines as they are, so that they can be copied."""
    if not examples:
        return
    with formatter.section("Examples"):
        for line in examples.splitlines():
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
