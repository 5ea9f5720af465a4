"""The ``key`` command, which makes API keys for a server."""

from __future__ import annotations

import sys
from secrets import token_urlsafe
from typing import Annotated

import typer

from ..http.security.api_keys import hashed, is_key, is_name

BITS = 256
"""Entropy of a new key: enough for a single round of hashing to protect it."""

LEAST_LENGTH = 20
"""Minimum length of keys that are not new, in characters. A fast hash does not protect short ones."""


def key_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key's owner, which the log shows.")],
    own: Annotated[bool, typer.Option("--own", help="Read the key from stdin, rather than making a new one.")] = False,
) -> None:
    """Make an API key. The line for the server's file goes to stdout, the key to stderr.

    The line has only a hash of the key, which cannot be turned back: keep the key, it is not shown again.
    """
    if not is_name(name):
        raise typer.BadParameter(f"{name!r} given; expected 1 to 64 of A-Z a-z 0-9 . _ -", param_hint="NAME")
    if own:
        key = _read()
    else:
        key = token_urlsafe(BITS // 8)
        typer.echo(f"API key of {name}, shown only now: {key}", err=True)
    typer.echo(f"{name}:{hashed(key)}")


def _read() -> str:
    key = sys.stdin.readline().strip()
    if not is_key(key):
        raise typer.BadParameter("keys may use A-Z a-z 0-9 . _ ~ + / -", param_hint="the key")
    if len(key) < LEAST_LENGTH:
        raise typer.BadParameter(f"{len(key)} characters given; expected at least {LEAST_LENGTH}", param_hint="the key")
    return key
