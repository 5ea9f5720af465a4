"""Entry point of the ``opwire`` command and of ``python -m opwire_service``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import TextIOWrapper


def main() -> None:
    """Runs the command line, or says how to install the packages it needs if they are missing."""
    if find_spec("typer") is None:
        sys.stderr.write('the opwire command needs the "service" extra: pip install "opwire[service]"\n')
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names read from files may not be encodable in the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        from .cli.app import app

        app(prog_name="opwire")
    except KeyboardInterrupt:  # during the imports
        sys.exit(130)


if __name__ == "__main__":
    main()
