"""How kernels are compiled: options, signatures, the cache on disk, and never within a request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from numba import njit

from . import cache
from .element import ADDRESS, FLOAT32
from .lowering import ForKernels

F = TypeVar("F", bound=Callable[..., Any])

_LOADING = threading.Lock()
"""Numba's own lock does not cover all that it does, and a process may have several devices."""

OPTIONS: Any = {"nogil": True, "error_model": "numpy"}

ARGUMENTS = 6
"""Integers that follow a kernel's ``zero``: three addresses, the address of its geometry, first unit, last unit + 1."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled kernel.

    Attributes:
        call: takes ``zero``, source, target, states or indices, geometry, begin, end.
        address: of the machine code, for callers that are machine code.
    """

    call: Callable[[int, int, int, int, int, int, int], None]
    address: int


def inner(function: F) -> F:
    """Compiles a function that kernels call; it becomes part of each of them."""
    return cast(F, njit(**OPTIONS, pipeline_class=ForKernels)(function))


def inlined(function: F) -> F:
    """Like ``inner``, of what is called so often that the call itself takes time."""
    return cast(F, njit(**OPTIONS, pipeline_class=ForKernels, forceinline=True)(function))


def kernel(function: F) -> F:
    """Compiles a kernel, once for each type of element, and keeps the machine code on disk."""
    dispatcher = uncached_kernel(function)
    cache.keep(dispatcher)
    return dispatcher


def uncached_kernel(function: F) -> F:
    """Compiles a kernel, once for each type of element in each process."""
    return cast(F, njit(**OPTIONS)(function))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for one type of element.

    Attributes:
        function: what ``kernel`` made.
        element: its numba type.
    """

    function: Any
    element: Any

    def __hash__(self) -> int:  # that of a numba type is a function of Python
        return hash((id(self.function), id(self.element)))

    @property
    def name(self) -> str:
        """Where it stands below the room of the CPU; processes that compile know it by that."""
        made_of = self.function.py_func
        return f"{made_of.__module__.partition('.cpu.')[2]}.{made_of.__name__}[{self.element}]"

    @property
    def is_float(self) -> bool:
        return bool(self.element == FLOAT32)

    @property
    def signature(self) -> tuple[Any, ...]:
        return (self.element, *(ADDRESS,) * ARGUMENTS)

    @property
    def is_loaded(self) -> bool:
        """Whether this process has its machine code."""
        return self.signature in self.function.overloads

    def is_cached(self) -> bool:
        """Whether the cache on disk holds it; it is loaded then, which takes milliseconds."""
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
        """Whether compiling it puts it into the cache."""
        return cache.is_kept(self.function)

    def compile_into_cache(self) -> None:
        """Compiles it, unless another process does so now or has done so."""
        with cache.lock(self.function, self.signature):
            self.compile()

    def compile(self) -> Entry:
        """The machine code, from memory, from the cache on disk or by compiling."""
        with _LOADING:
            self.function.compile(self.signature)
            compiled = self.function.overloads[self.signature]
            address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        if not address:
            raise TypeError(f"{self.name} is a function for kernels to call, and no kernel")
        return Entry(compiled.entry_point, address)
