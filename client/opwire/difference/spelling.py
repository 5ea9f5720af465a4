"""How sides are written, on the command line and in Python.

- a folder of ``.npy`` files, or an ``.npz`` file, with tensors by name;
- ``onnxruntime``, ``onnxruntime:Provider`` or ``onnxruntime:Provider:optimized``, run in this process;
- ``cpu``, ``cuda`` or ``reference``, a device of this machine, or the ``http://`` address of a server;
- ``command:PROGRAM ARGUMENTS``, a program that reads the inputs as ``.npy`` files from the folder that its next
  argument names, and writes tensors to the folder that its last argument names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .sides import ArraysSide, CommandSide, FilesSide, RunnerSide, Side, SideError
from .subjects import Runner


def side_of(given: str | Path | Side | Mapping[str, Any] | Runner, timeout: float | None = None) -> Side:
    """Returns the side that a text, a path, arrays by name or a client stand for.

    Raises:
        SideError: there is no such side.
    """
    if isinstance(given, Side):
        return given
    if isinstance(given, Mapping):
        return ArraysSide(given)
    if not isinstance(given, str | Path):
        return RunnerSide(repr(given), given)
    text = str(given)
    path = Path(text)
    if path.is_dir() or (path.is_file() and path.suffix == ".npz"):
        return FilesSide(path)
    if text.startswith("command:"):
        return CommandSide(text.removeprefix("command:"), timeout)
    if text.partition(":")[0] == "onnxruntime":
        from .onnxruntime_side import OnnxRuntimeSide  # its package is optional

        provider, _, optimized = text.partition(":")[2].partition(":")
        if optimized not in ("", "optimized"):
            raise SideError(f"{text!r} given; only optimized may follow the provider")
        return OnnxRuntimeSide(provider or "CPU", optimized, timeout)
    if text.startswith(("http://", "https://")):
        from ..client import Client

        try:
            client = Client(text)
        except ValueError as error:
            raise SideError(str(error)) from None
        return RunnerSide(text, client)
    if text in ("cpu", "cuda", "reference"):
        from ..client import local

        return RunnerSide(text, local(device=text))
    raise SideError(
        f"{text!r} given; a side is a folder of .npy files, an .npz file, onnxruntime[:Provider], cpu, cuda, "
        "reference, the http:// address of a server, or command:PROGRAM"
    )
