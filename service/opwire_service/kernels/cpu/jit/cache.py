"""On-disk cache of machine code: numba's, changed in four ways that a service needs.

Staleness covers every module that a kernel's machine code is made from, not only its own, because callees become part
of the kernel. A prefilled cache is readable where it cannot be written, as in a container with a read-only file system.
And several processes may fill it concurrently and be killed at any point: each kernel has its own file, which is
replaced atomically. A file is unpickled only if nobody else can have written it, and if its seal is right.

The folder is ``NUMBA_CACHE_DIR`` if set, else ``__pycache__`` next to the kernels, else one in the home folder.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from io import BytesIO
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

from ...code_files import read_own, write_own
from .sources import stamp

_ENDING = ".kernel"


class _Stamped:
    """Locator mixin: stamps files with a kernel's sources, and accepts a read-only folder that holds code."""

    get_cache_path: Any
    _py_file: str

    def get_source_stamp(self) -> bytes:
        return stamp(Path(self._py_file))

    def ensure_cache_path(self) -> None:
        try:
            super().ensure_cache_path()  # type: ignore[misc] # defined by numba's locator
        except OSError:
            if not any(Path(self.get_cache_path()).glob("*" + _ENDING)):
                raise


class _Chosen(_Stamped, UserProvidedCacheLocator):
    """Locates the cache in ``NUMBA_CACHE_DIR``."""


class _NextToKernels(_Stamped, InTreeCacheLocator):
    """Locates the cache in ``__pycache__`` next to the kernels."""


class _InHome(_Stamped, UserWideCacheLocator):
    """Locates the cache in the user's cache folder."""


class _Files(CompileResultCacheImpl):
    """numba's cache files, at the locations that the service uses."""

    _locator_classes = [_Chosen, _NextToKernels, _InHome]  # noqa: RUF012 # as numba declares it


class _KernelFiles:
    """The cache files of one kernel function, one for each element type and processor."""

    def __init__(self, folder: Path, name: str, stamp: bytes) -> None:
        self._folder = folder
        self._name = name
        self._stamp = stamp

    def path(self, key: Any) -> Path:
        signature, processor, _ = key
        return self._folder / f"{self._name}.{sha256(repr((signature, processor)).encode()).hexdigest()[:16]}{_ENDING}"

    def load(self, key: Any) -> Any:
        """Returns the data saved for a key, or None if there is none, or it is stale or somebody else's."""
        # Anything unreadable, for whatever reason, is a cache miss.
        with suppress(Exception):
            file = BytesIO(read_own(self.path(key)))
            if file.read(_SEAL_BYTES) == self._seal(file.getbuffer()[_SEAL_BYTES:]) and pickle.load(file) == key:
                return pickle.load(file)
        return None

    def save(self, key: Any, data: Any) -> None:
        content = dumps(key) + dumps(data)  # type: ignore[no-untyped-call] # numba is untyped
        write_own(self.path(key), self._seal(content) + content)

    def _seal(self, content: bytes | memoryview) -> bytes:
        """Returns the digest of the sources and of what was made from them, with which a file begins."""
        seal = sha256(repr((numba.__version__, self._stamp)).encode())
        seal.update(content)
        return seal.digest()


_SEAL_BYTES = sha256().digest_size


class KernelCache(FunctionCache):
    """The on-disk cache of one function.

    Raises:
        RuntimeError: no folder is available for it.
    """

    _impl_class = _Files

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call] # numba is untyped
        self._files = _KernelFiles(
            Path(self.cache_path), self._impl.filename_base, self._impl.locator.get_source_stamp()
        )
        self._cache_file: Any = self._files

    @property
    def is_writable(self) -> bool:
        return os.access(self.cache_path, os.W_OK)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Machine code that cannot be restored is a cache miss, like a file that cannot be read.
        with suppress(Exception):
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call] # numba is untyped
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        # If it cannot be saved, the code still runs from memory.
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call] # numba is untyped

    def lock(self, signature: Any, target: Any) -> Any:
        """Returns a context that one process at a time enters for a kernel; the next finds its code in the cache."""
        key = self._index_key(signature, target.codegen())  # type: ignore[no-untyped-call] # numba is untyped
        return _lock(self._files.path(key).with_suffix(".lock")) if self.is_writable else nullcontext()


@contextmanager
def _lock(path: Path) -> Generator[None]:
    if sys.platform == "win32":  # without fcntl, a kernel may be compiled twice
        yield
        return
    import fcntl

    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep(dispatcher: Any) -> None:
    """Gives a compiled function an on-disk cache, if a folder is available."""
    with suppress(RuntimeError):
        dispatcher._cache = KernelCache(dispatcher.py_func)


def is_kept(dispatcher: Any) -> bool:
    """Whether newly compiled code will be written to disk."""
    return isinstance(dispatcher._cache, KernelCache) and dispatcher._cache.is_writable


def lock(dispatcher: Any, signature: Any) -> Any:
    """Returns a context that one process at a time enters to compile a cached function for a signature."""
    kept = dispatcher._cache
    return kept.lock(signature, dispatcher.targetctx) if isinstance(kept, KernelCache) else nullcontext()
