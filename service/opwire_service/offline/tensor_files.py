"""Writes tensors to files in ``.npy`` format or as raw bytes, atomically."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from errno import EINVAL, EIO
from pathlib import Path
from secrets import token_hex
from typing import IO, Any
from urllib.parse import quote

import numpy as np

from opwire.files import is_npy
from opwire.tensor import Array, BufferTensorDesc


def write_array(path: Path, array: Array) -> None:
    """Writes an array in ``.npy`` format if the path has that suffix, or else as raw bytes.

    Missing folders are created.

    Raises:
        OSError: the file could not be written; an existing file is unchanged.
    """
    with _replacing(path) as file:
        if is_npy(path):
            np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
        else:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


_IN_NAMES = " #$&'()+,;=@[]{}"
"""Characters of tensor names that are kept in file names; slashes, for one, would lead to other folders."""


def write_outputs(path: Path, descs: Mapping[str, BufferTensorDesc], buffers: Mapping[str, Array]) -> dict[str, Path]:
    """Writes output tensors and returns the file of each.

    Args:
        path: path of the file, if there is a single output and the path has a suffix or is an existing file; otherwise
            the folder for a ``NAME.npy`` per output.
        descs: descs of the outputs.
        buffers: bytes of the outputs. A raw file contains all of them, a ``.npy`` file the logical elements.

    Raises:
        OSError: a file could not be written.
    """
    paths = _paths(path, descs)
    for name, target in paths.items():
        write_array(target, descs[name].elements(descs[name].view(buffers[name])) if is_npy(target) else buffers[name])
    return paths


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> dict[str, Path]:
    """Writes arrays and returns the file of each; ``path`` is that of the file or folder, as for ``write_outputs``.

    Raises:
        OSError: a file could not be written.
    """
    paths = _paths(path, arrays)
    for name, target in paths.items():
        write_array(target, arrays[name])
    return paths


def _paths(path: Path, names: Collection[str]) -> dict[str, Path]:
    whole = len(names) == 1 and not path.is_dir() and (path.suffix or path.exists())
    return {name: path if whole else path / f"{quote(name, _IN_NAMES)}.npy" for name in names}


@contextmanager
def _replacing(path: Path) -> Generator[IO[Any]]:
    """Provides a temporary file that replaces the one at ``path`` once it is complete."""
    try:
        target = path.resolve()
    except ValueError as error:  # not a valid file name
        raise OSError(EINVAL, str(error), str(path)) from None
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as device:  # such as /dev/stdout, which cannot be replaced
                yield device
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".opwire-{token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                yield file
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:  # NumPy's has no errno
        raise OSError(error.errno or EIO, error.strerror or str(error), str(path)) from error
