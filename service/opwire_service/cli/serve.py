"""The ``serve`` command, whose options are the settings."""

from __future__ import annotations

import gc
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import typer

from ..devices import AUTO, DEVICES, is_device
from ..oip.shared_memory import AVAILABLE, PREFIX
from ..settings import Limits, Option, Settings

UNREADABLE = 2

_HEAD = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")

_ROOT_PATH = re.compile("(/[A-Za-z0-9._~-]+)+")


def device_name(given: str) -> str:
    """Validates a device name from the command line."""
    if not is_device(given):
        raise typer.BadParameter(f"{given!r} is not a device; allowed: {', '.join(DEVICES)}", param_hint="--device")
    return given


def _root_path(given: str) -> str:
    path = given.removesuffix("/")
    if path and not _ROOT_PATH.fullmatch(path):
        raise typer.BadParameter(f"{given!r} given; expected a path such as /tensors", param_hint="--root-path")
    return path


def _shared_memory_prefix(given: str | None) -> str | None:
    if given is not None and not AVAILABLE:
        raise typer.BadParameter("only available on Linux", param_hint="--shared-memory-prefix")
    if given is not None and not PREFIX.fullmatch(given):
        message = f"{given!r} given; allowed: up to 64 letters, digits, _, - and ., not starting with ."
        raise typer.BadParameter(message, param_hint="--shared-memory-prefix")
    return given


def _ray(given: str | None) -> str | None:
    if given is not None and given not in ("auto", "local") and not _HEAD.fullmatch(given):
        raise typer.BadParameter(f"{given!r} given; allowed: auto, local, or HOST:PORT", param_hint="--ray")
    return given


def parse_settings(given: dict[str, Any]) -> Settings:
    """Returns the settings for the values of the options.

    Raises:
        typer.BadParameter: if an option is invalid or conflicts with another.
    """
    limits = Limits(**{each.name: given.pop(each.name) for each in fields(Limits)})
    if given["tls_key"] is not None and given["tls_certificate"] is None:
        raise typer.BadParameter("requires --tls-certificate", param_hint="--tls-key")
    given["devices"] = tuple(
        name if name == AUTO else device_name(name) for name in given["devices"] or Settings().devices
    )
    given["cors_origins"] = tuple(given["cors_origins"] or ())
    given["root_path"] = _root_path(given["root_path"])
    given["ray"] = _ray(given["ray"])
    if given["ray"] == "local" and given["workers"] > 1:
        raise typer.BadParameter("with local, each of --workers would start its own cluster", param_hint="--ray")
    given["shared_memory_prefix"] = _shared_memory_prefix(given["shared_memory_prefix"])
    return Settings(limits=limits, **given)


def _parameters(settings: object) -> Iterator[inspect.Parameter]:
    """Yields a parameter for each field with an ``Option``, with its value in ``settings`` as the default."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        kind, *noted = get_args(hint) or (hint,)
        for option in noted:
            if isinstance(option, Option):
                default = getattr(settings, name)
                if isinstance(default, tuple):
                    kind, default = list[str] | None, None
                default = _typer_option(name, default, option)
                yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _typer_option(name: str, default: object, option: Option) -> Any:
    flag = option.flag or f"--{name.replace('_', '-')}"
    variable = "OPWIRE_" + flag.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        default, flag, envvar=variable, min=option.least, max=option.most, metavar=option.metavar, help=option.help
    )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of all settings to a command, through the signature and annotations that Typer reads."""
    signature = inspect.Signature([*_parameters(Settings()), *_parameters(Limits())])
    vars(command)["__signature__"] = signature
    command.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return command


@with_options
def serve_command(**given: Any) -> None:
    """Serve operators over HTTP until SIGINT or SIGTERM."""
    gc.disable()  # until the server is ready: its startup objects are permanent, so collections would only rescan them
    from ..process.serve import serve  # imports fastapi and uvicorn, which other commands do not need

    try:
        code = serve(parse_settings(given))
    except (OSError, ValueError) as error:
        name = getattr(error, "filename", None)
        typer.echo(f"opwire: {f'{name}: ' if name else ''}{getattr(error, 'strerror', None) or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    raise typer.Exit(code)
