"""The cache of machine code on disk: numba's, but for three things that a service needs.

What a kernel calls becomes part of it, so its code is stale when any of the modules has changed that it is made from,
not its own alone. A cache that was filled ahead is read where it cannot be written, as in a container with a read-only
file system. And several processes fill it at once, any of which may be killed: each kernel has one file of its own,
which is there as a whole or not at all.

The folder is ``NUMBA_CACHE_DIR`` where that is set, else ``__pycache__`` next to the kernels, else one in the
home folder.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numba.core.serialize import dumps

from .sources import stamp


class _Stamped:
    """Part of a locator: what its files are stamped with, and when its folder will do."""

    get_cache_path: Any
    _py_file: str

    def get_source_stamp(self) -> bytes:
        return stamp(Path(self._py_file))

    def ensure_cache_path(self) -> None:
        try:
            super().ensure_cache_path()  # type: ignore[misc] # numba's locator has it
        except OSError:
            if not any(Path(self.get_cache_path()).glob("*.nbc")):
                raise


class _Chosen(_Stamped, UserProvidedCacheLocator):
    """``NUMBA_CACHE_DIR``."""


class _NextToKernels(_Stamped, InTreeCacheLocator):
    """``__pycache__``."""


class _InHome(_Stamped, UserWideCacheLocator):
    """The user's cache folder."""


class _Files(CompileResultCacheImpl):
    _locator_classes = [_Chosen, _NextToKernels, _InHome]  # noqa: RUF012 # as numba declares it


class _KernelFiles:
    """The files of the kernels that one function makes, one for each type of element and each kind of processor."""

    def __init__(self, folder: Path, name: str, stamp: bytes) -> None:
        self._folder = folder
        self._name = name
        self._stamp = stamp

    def path(self, key: Any) -> Path:
        signature, processor, _ = key
        return self._folder / f"{self._name}.{sha256(repr((signature, processor)).encode()).hexdigest()[:16]}.nbc"

    def load(self, key: Any) -> Any:
        """What was saved for a key, or None if there is nothing, or nothing but what is stale."""
        # What cannot be read, for whatever reason, is not there.
        with suppress(Exception), self.path(key).open("rb") as file:
            if pickle.load(file) == (numba.__version__, self._stamp) and pickle.load(file) == key:
                return pickle.load(file)
        return None

    def save(self, key: Any, data: Any) -> None:
        path = self.path(key)
        written = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            parts = (pickle.dumps((numba.__version__, self._stamp)), dumps(key), dumps(data))  # type: ignore[no-untyped-call] # of numba
            written.write_bytes(b"".join(parts))
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)


class KernelCache(FunctionCache):
    """The cache of one function.

    Raises:
        RuntimeError: there is no folder for it.
    """

    _impl_class = _Files

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call] # of numba
        self._files = _KernelFiles(
            Path(self.cache_path), self._impl.filename_base, self._impl.locator.get_source_stamp()
        )
        self._cache_file: Any = self._files

    @property
    def is_writable(self) -> bool:
        return os.access(self.cache_path, os.W_OK)

    def save_overload(self, sig: Any, data: Any) -> None:
        # Without a place on disk the code serves from memory.
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call] # of numba

    def lock(self, signature: Any, target: Any) -> Any:
        """A context that one process at a time enters, for each kernel: the others find its code in the cache then."""
        key = self._index_key(signature, target.codegen())  # type: ignore[no-untyped-call] # of numba
        return _lock(self._files.path(key).with_suffix(".lock")) if self.is_writable else nullcontext()


@contextmanager
def _lock(path: Path) -> Generator[None]:
    if sys.platform == "win32":  # there kernels may be compiled twice
        yield
        return
    import fcntl

    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep(dispatcher: Any) -> None:
    """Makes a compiled function keep its code on disk, if there is a folder for it."""
    with suppress(RuntimeError):
        dispatcher._cache = KernelCache(dispatcher.py_func)


def is_kept(dispatcher: Any) -> bool:
    """Whether code that is compiled now will be on disk."""
    return isinstance(dispatcher._cache, KernelCache) and dispatcher._cache.is_writable


def lock(dispatcher: Any, signature: Any) -> Any:
    """A context that at most one process is in while it compiles a function for a signature, if it is kept on disk."""
    kept = dispatcher._cache
    return kept.lock(signature, dispatcher.targetctx) if isinstance(kept, KernelCache) else nullcontext()
