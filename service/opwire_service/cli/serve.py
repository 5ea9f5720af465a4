"""The ``serve`` command, whose options are the settings."""

from __future__ import annotations

import gc
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, partial
from typing import Annotated, Any, cast, get_args, get_type_hints

import typer

from ..devices import AUTO, DEVICES, is_device
from ..oip.shared_memory import AVAILABLE, PREFIX
from ..settings import Limits, Option, Settings, UnusableSetting
from .sizes import parse_size, show_size

UNREADABLE = 2

NEARLY = 0.9
"""Similarity of the name of an unknown environment variable to that of an option, from which on it is a mistake."""

_HEAD = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")

_ROOT_PATH = re.compile("(/[A-Za-z0-9._~-]+)+")


def flag_of(name: str, option: Option) -> str:
    return option.flag or f"--{name.replace('_', '-')}"


def variable_of(name: str, option: Option) -> str:
    return "OPWIRE_" + flag_of(name, option).partition("/")[0].removeprefix("--").replace("-", "_").upper()


def _options(settings: object) -> Iterator[tuple[str, Any, Option]]:
    """Yields the name, the type and the option of each field that has one."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        kind, *noted = get_args(hint) or (hint,)
        yield from ((name, kind, option) for option in noted if isinstance(option, Option))


@cache
def _hints() -> dict[str, str]:
    """Returns how errors name each setting: its option and its variable, as Typer does."""
    listed = (*_options(Settings()), *_options(Limits()))
    return {name: f"'{flag_of(name, option)}' (env var: '{variable_of(name, option)}')" for name, _, option in listed}


def invalid(setting: str, message: str) -> typer.BadParameter:
    """Returns the error for a setting that cannot be used, which names its option and its variable."""
    return typer.BadParameter(message, param_hint=_hints()[setting])


def refuse_misspelled(environment: Iterable[str]) -> None:
    """Refuses environment variables whose names are almost those of options.

    Others may be for other programs: Kubernetes, for one, describes a service called opwire by such variables.

    Raises:
        typer.BadParameter: there is one.
    """
    known = {variable_of(name, option) for name, _, option in (*_options(Settings()), *_options(Limits()))}
    for name in sorted(name for name in environment if name.startswith("OPWIRE_") and name not in known):
        near = get_close_matches(name, known, 1, NEARLY)
        if near:
            raise typer.BadParameter(f"there is no such variable; did you mean {near[0]}?", param_hint=f"'{name}'")


def _check_memory(limits: Limits) -> None:
    """Refuses less memory than a single request may take. A worker gets its share of it, and may exceed it by one."""
    for name in ("body_bytes", "output_bytes"):
        needed = getattr(limits, name)
        if limits.memory_bytes < needed:
            least = show_size(needed)
            given = f"{show_size(limits.memory_bytes)} is less than one request may take"
            flag = f"--{name.replace('_', '-')} {least}"
            raise invalid("memory_bytes", f"{given} with {flag}; give at least {least}, or lower that")


def device_name(given: str) -> str:
    """Validates a device name from the command line."""
    if not is_device(given):
        raise invalid("devices", f"{given!r} is not a device; allowed: {', '.join(DEVICES)}")
    return given


def _root_path(given: str) -> str:
    path = given.removesuffix("/")
    if path and not _ROOT_PATH.fullmatch(path):
        raise invalid("root_path", f"{given!r} given; expected a path such as /tensors")
    return path


def _shared_memory_prefix(given: str | None) -> str | None:
    if given is not None and not AVAILABLE:
        raise invalid("shared_memory_prefix", "only available on Linux")
    if given is not None and not PREFIX.fullmatch(given):
        message = f"{given!r} given; allowed: up to 64 letters, digits, _, - and ., not starting with ."
        raise invalid("shared_memory_prefix", message)
    return given


def _ray(given: str | None) -> str | None:
    if given is not None and given not in ("auto", "local") and not _HEAD.fullmatch(given):
        raise invalid("ray", f"{given!r} given; allowed: auto, local, or HOST:PORT")
    return given


def parse_settings(given: dict[str, Any]) -> Settings:
    """Returns the settings for the values of the options.

    Raises:
        typer.BadParameter: if an option is invalid or conflicts with another.
    """
    limits = Limits(**{each.name: given.pop(each.name) for each in fields(Limits)})
    _check_memory(limits)
    if given["tls_key"] is not None and given["tls_certificate"] is None:
        raise invalid("tls_key", "requires --tls-certificate")
    given["devices"] = tuple(
        name if name == AUTO else device_name(name) for name in given["devices"] or Settings().devices
    )
    given["cors_origins"] = tuple(given["cors_origins"] or ())
    given["root_path"] = _root_path(given["root_path"])
    given["ray"] = _ray(given["ray"])
    if given["ray"] == "local" and given["workers"] > 1:
        raise invalid("ray", "with local, each of --workers would start its own cluster")
    given["shared_memory_prefix"] = _shared_memory_prefix(given["shared_memory_prefix"])
    return Settings(limits=limits, **given)


def _parameters(settings: object) -> Iterator[inspect.Parameter]:
    """Yields a parameter for each option, with the value in ``settings`` as the default."""
    for name, kind, option in _options(settings):
        default = getattr(settings, name)
        if isinstance(default, tuple):
            kind, default = list[str] | None, None
        default = _typer_option(name, default, option)
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _typer_option(name: str, default: object, option: Option) -> Any:
    metavar = option.metavar or (None if option.least is None else "N")
    declared: dict[str, Any] = {"min": option.least, "max": option.most, "metavar": metavar}
    if option.is_size:
        declared = {
            "parser": partial(_size, option.least or 0),
            "metavar": "SIZE",
            "show_default": show_size(cast(int, default)),
        }
    declared |= {"help": option.help, "rich_help_panel": option.group}
    return typer.Option(default, flag_of(name, option), envvar=variable_of(name, option), **declared)


def _size(least: int, given: str | int) -> int:
    try:
        size = parse_size(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if size < least:
        raise typer.BadParameter(f"{given} is not in the range x>={least}.")
    return size


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of all settings to a command, through the signature and annotations that Typer reads."""
    own = [each for each in inspect.signature(command).parameters.values() if each.kind is not each.VAR_KEYWORD]
    own = [each.replace(annotation=get_type_hints(command, include_extras=True)[each.name]) for each in own]
    signature = inspect.Signature([*own, *_parameters(Settings()), *_parameters(Limits())])
    vars(command)["__signature__"] = signature
    command.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return command


@with_options
def serve_command(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings, files, devices and the port, and exit without serving.")
    ] = False,
    **given: Any,
) -> None:
    """Serve operators over HTTP until SIGINT or SIGTERM."""
    gc.disable()  # until the server is ready: its startup objects are permanent, so collections would only rescan them
    refuse_misspelled(os.environ)
    settings = parse_settings(given)
    from ..process import serve  # imports fastapi and uvicorn, which other commands do not need

    try:
        if check:
            typer.echo(f"opwire would serve at {serve.check(settings)}")
            return
        code = serve.serve(settings)
    except UnusableSetting as error:
        typer.echo(f"opwire: {_hints()[error.setting]}: {error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    except (OSError, ValueError) as error:
        name = getattr(error, "filename", None)
        typer.echo(f"opwire: {f'{name}: ' if name else ''}{getattr(error, 'strerror', None) or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    raise typer.Exit(code)
