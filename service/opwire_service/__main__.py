"""Entry of the ``opwire`` command, and of ``python -m opwire_service``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import TextIOWrapper


def main() -> None:
    """Runs the command line; without the packages that it needs, says in one line how to get them."""
    if find_spec("typer") is None:
        sys.stderr.write('the command needs the service extra: pip install "opwire[service]"\n')
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names in a file may hold what the terminal's encoding does not
            stream.reconfigure(errors="backslashreplace")
    try:
        from .cli.app import app

        app(prog_name="opwire")
    except KeyboardInterrupt:  # while the imports are under way
        sys.exit(130)


if __name__ == "__main__":
    main()
