"""Reports the errors of commands: a message and an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer

from opwire.errors import OpwireError, ProblemCode, to_problem

from . import render

REFUSED, UNREADABLE = 1, 2

_UNREADABLE = (ProblemCode.INVALID_JSON, ProblemCode.INVALID_MODEL)


def print_json(value: object) -> None:
    """Prints a value as one line of JSON."""
    typer.echo(json.dumps(value, allow_nan=False))


@contextmanager
def reporting(as_json: bool, refused: int = REFUSED) -> Generator[None]:
    """Converts exceptions to a message and an exit code.

    Args:
        as_json: whether the message is JSON.
        refused: the exit code of what is read and refused.
    """
    try:
        yield
        sys.stdout.flush()
    except OpwireError as error:
        if as_json:
            print_json(to_problem(error))
        else:
            typer.echo(f"opwire: {error.detail}", err=True)
            for line in render.violation_lines(error.violations):
                typer.echo(line, err=True)
        raise typer.Exit(UNREADABLE if error.code in _UNREADABLE else refused) from None
    except BrokenPipeError:  # the reader closed the pipe; typer exits silently
        raise
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename}: "
        typer.echo(f"opwire: {name}{error.strerror or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    except MemoryError as error:
        typer.echo(f"opwire: out of memory: {error}", err=True)
        raise typer.Exit(UNREADABLE) from None
