"""The command that serves; its options are those of the settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, get_args, get_type_hints

import typer

from .devices import DEVICES, is_device
from .settings import Limits, Option, Settings

UNREADABLE = 2


def device_name(given: str) -> str:
    """A device's name, as given on the command line."""
    if not is_device(given):
        raise typer.BadParameter(f"{given!r} is not a device; allowed: {', '.join(DEVICES)}", param_hint="--device")
    return given


def serve_command(**given: Any) -> None:
    """Serve the operators over HTTP until SIGINT or SIGTERM."""
    from .serve import serve  # it needs fastapi and uvicorn, which the other commands do without

    try:
        code = serve(_settings(given))
    except (OSError, ValueError) as error:
        name = getattr(error, "filename", None)
        typer.echo(f"opwire: {f'{name}: ' if name else ''}{getattr(error, 'strerror', None) or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    raise typer.Exit(code)


def _settings(given: dict[str, Any]) -> Settings:
    limits = Limits(**{each.name: given.pop(each.name) for each in fields(Limits)})
    if given["tls_key"] is not None and given["tls_certificate"] is None:
        raise typer.BadParameter("it needs --tls-certificate", param_hint="--tls-key")
    given["devices"] = tuple(map(device_name, given["devices"] or Settings().devices))
    given["cors_origins"] = tuple(given["cors_origins"] or ())
    return Settings(limits=limits, **given)


def _parameters(settings: object) -> Iterator[inspect.Parameter]:
    """An option for each field that has one, with the value in these settings as its default."""
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        kind, *noted = get_args(hint) or (hint,)
        for option in noted:
            if isinstance(option, Option):
                default = getattr(settings, name)
                if isinstance(default, tuple):
                    kind, default = list[str] | None, None
                keyword = inspect.Parameter.KEYWORD_ONLY
                annotation = Annotated[kind, _typer_option(name, option)]
                yield inspect.Parameter(name, keyword, default=default, annotation=annotation)


def _typer_option(name: str, option: Option) -> Any:
    flag = option.flag or f"--{name.replace('_', '-')}"
    variable = "OPWIRE_" + flag.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        flag, envvar=variable, min=option.least, max=option.most, metavar=option.metavar, help=option.help
    )


_SIGNATURE = inspect.Signature([*_parameters(Settings()), *_parameters(Limits())])
# Typer reads the options of a command off its signature and its annotations.
vars(serve_command)["__signature__"] = _SIGNATURE
serve_command.__annotations__ = {each.name: each.annotation for each in _SIGNATURE.parameters.values()}
