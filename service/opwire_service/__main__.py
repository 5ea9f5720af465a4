"""Entry point of the ``opwire`` command and of ``python -m opwire_service``."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from io import TextIOWrapper

_EXTRA = re.compile(r"([A-Za-z0-9._-]+).*;.*extra == ['\"]service['\"]")


def main() -> None:
    """Runs the command line, or says how to install the packages that a command needs if they are missing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names read from files may not be encodable in the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        from .cli.app import app

        app(prog_name="opwire")
    except KeyboardInterrupt:  # during the imports
        sys.exit(130)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _packages():
            raise
        sys.stderr.write(f'opwire: this needs {missing}, of the "service" extra: pip install "opwire[service]"\n')
        sys.exit(1)


def _packages() -> set[str]:
    """Returns the packages of the ``service`` extra, by the names they are imported under."""
    try:
        listed = requires("opwire") or []
    except PackageNotFoundError:  # run from the source tree
        return set()
    return {found[1].replace("-", "_") for each in listed if (found := _EXTRA.match(each))}


if __name__ == "__main__":
    main()
