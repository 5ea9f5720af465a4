"""The cache of machine code on disk: numba's, but for two things that a service needs.

What a kernel calls becomes part of it, so its code is stale when any of the modules has changed that it is made from,
not its own alone. And a cache that was filled ahead is read where it cannot be written, as in a container with a
read-only file system.

The folder is ``NUMBA_CACHE_DIR`` where that is set, else ``__pycache__`` next to the kernels, else one in the
home folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)

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
            if not any(Path(self.get_cache_path()).glob("*.nbi")):
                raise


class _Chosen(_Stamped, UserProvidedCacheLocator):
    """``NUMBA_CACHE_DIR``."""


class _NextToKernels(_Stamped, InTreeCacheLocator):
    """``__pycache__``."""


class _InHome(_Stamped, UserWideCacheLocator):
    """The user's cache folder."""


class _Files(CompileResultCacheImpl):
    _locator_classes = [_Chosen, _NextToKernels, _InHome]  # noqa: RUF012 # as numba declares it


class KernelCache(FunctionCache):
    """The cache of one function.

    Raises:
        RuntimeError: there is no folder for it.
    """

    _impl_class = _Files

    @property
    def is_writable(self) -> bool:
        return os.access(self.cache_path, os.W_OK)

    def save_overload(self, sig: Any, data: Any) -> None:
        # Without a place on disk the code serves from memory.
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call] # of numba


def keep(dispatcher: Any) -> None:
    """Makes a compiled function keep its code on disk, if there is a folder for it."""
    with suppress(RuntimeError):
        dispatcher._cache = KernelCache(dispatcher.py_func)  # type: ignore[no-untyped-call] # of numba


def is_kept(dispatcher: Any) -> bool:
    """Whether code that is compiled now will be on disk."""
    return isinstance(dispatcher._cache, KernelCache) and dispatcher._cache.is_writable
