"""Compilation of kernels: numba options, signatures and the on-disk cache."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as cached
from typing import Any, TypeVar, cast, get_type_hints

from numba import njit

from . import cache
from .element import FLOAT32
from .lowering import ForKernels
from .record_types import type_of

F = TypeVar("F", bound=Callable[..., Any])

_LOADING = threading.Lock()
"""Serializes compiling and loading: numba's own lock is incomplete, and a process may have several devices."""

OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
"""numba options of all kernels: they release the GIL, and float division by zero follows IEEE 754."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled kernel.

    Attributes:
        call: takes ``zero``, source, target, states or indices, geometry, begin and end.
        address: address of the machine code, for callers that are machine code themselves.
    """

    call: Callable[[int, int, int, int, int, int, int], None]
    address: int


def inner(function: F) -> F:
    """Compiles a function called by kernels; it becomes part of each of them."""
    return cast(F, njit(**OPTIONS, pipeline_class=ForKernels)(function))


def inlined(function: F) -> F:
    """Like ``inner``, with forced inlining, for functions called so often that the call itself costs time."""
    return cast(F, njit(**OPTIONS, pipeline_class=ForKernels, forceinline=True)(function))


def kernel(function: F) -> F:
    """Compiles a kernel, once for each element type, and caches the machine code on disk."""
    dispatcher = uncached_kernel(function)
    cache.keep(dispatcher)
    return dispatcher


def uncached_kernel(function: F) -> F:
    """Compiles a kernel, once for each element type and process."""
    return cast(F, njit(**OPTIONS)(function))


@cached
def _arguments(function: Callable[..., object]) -> tuple[Any, ...]:
    """Returns the types of what follows a kernel's ``zero``: addresses or other integers, and records."""
    return tuple(type_of(kind) for name, kind in get_type_hints(function).items() if name not in ("zero", "return"))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for one element type.

    Attributes:
        function: the dispatcher returned by ``kernel``.
        element: numba type of an element.
    """

    function: Any
    element: Any

    def __hash__(self) -> int:  # a numba type's own hash is computed in Python and slow
        return hash((id(self.function), id(self.element)))

    @property
    def name(self) -> str:
        """Qualified name below the CPU package, with the element type; compiler processes look kernels up by it."""
        made_of = self.function.py_func
        return f"{made_of.__module__.partition('.cpu.')[2]}.{made_of.__name__}[{self.element}]"

    @property
    def is_float(self) -> bool:
        return bool(self.element == FLOAT32)

    @property
    def signature(self) -> tuple[Any, ...]:
        return (self.element, *_arguments(self.function.py_func))

    @property
    def is_loaded(self) -> bool:
        """Whether this process has loaded its machine code."""
        return self.signature in self.function.overloads

    def is_cached(self) -> bool:
        """Whether the on-disk cache holds it. If so, loads it, which takes milliseconds."""
        dispatcher = self.function
        if self.is_loaded:
            return True
        with _LOADING:
            found = dispatcher._cache.load_overload(self.signature, dispatcher.targetctx)
            if found is not None:
                dispatcher.add_overload(found)
        return found is not None

    @property
    def is_kept(self) -> bool:
        """Whether compiling it writes it to the cache."""
        return cache.is_kept(self.function)

    def compile_into_cache(self) -> None:
        """Compiles it, unless another process is doing so or has done so."""
        with cache.lock(self.function, self.signature):
            self.compile()

    def compile(self) -> Entry:
        """Returns the machine code: from memory, from the on-disk cache, or by compiling."""
        with _LOADING:
            self.function.compile(self.signature)
            compiled = self.function.overloads[self.signature]
            address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        if not address:
            raise TypeError(f"{self.name} is a function for kernels to call, and no kernel")
        return Entry(compiled.entry_point, address)
