"""Compiles the CPU kernels into the on-disk cache, ahead of any request.

The cache is stored next to the package or in ``NUMBA_CACHE_DIR``. It holds code for the host processor, or, with
``NUMBA_CPU_NAME=x86-64-v3`` and an empty ``NUMBA_CPU_FEATURES``, for any server processor of the last decade.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from time import perf_counter

from .families import KERNELS
from .jit.compiler import Kernel
from .jit.compiling import only_compile


def warm_up(kernels: Sequence[Kernel] = KERNELS, processes: int | None = None) -> Iterator[tuple[str, float]]:
    """Compiles kernels or loads them from the cache; yields each kernel's name and the seconds it took.

    Args:
        kernels: the kernels to compile.
        processes: number of compiler processes; by default the number of cores.
    """
    missing = []
    for kernel in kernels:
        started = perf_counter()
        if kernel.is_kept and not kernel.is_cached():
            missing.append(kernel)
        else:
            kernel.compile()
            yield kernel.name, perf_counter() - started
    if processes == 1 or len(missing) < 2:
        yield from compile_all([kernel.name for kernel in missing])
        return
    groups = sorted(_sharing(missing), key=len, reverse=True)
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=spawn, initializer=_begin) as pool:
        for done in as_completed([pool.submit(compile_all, [kernel.name for kernel in group]) for group in groups]):
            yield from done.result()


def _begin() -> None:
    only_compile()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exits when the parent process dies; an orphaned pool would wait for work forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _sharing(kernels: Iterable[Kernel]) -> list[list[Kernel]]:
    """Groups kernels by family and element type: these share most functions, which a process compiles only once."""
    groups: dict[tuple[str, object], list[Kernel]] = {}
    for kernel in kernels:
        family, _, _ = kernel.function.py_func.__module__.rpartition(".")
        groups.setdefault((family, kernel.element), []).append(kernel)
    return list(groups.values())


def compile_all(names: Sequence[str]) -> list[tuple[str, float]]:
    """Compiles the named kernels one by one; returns the seconds each took."""
    taken = []
    for kernel in (kernel for kernel in KERNELS if kernel.name in names):
        started = perf_counter()
        kernel.compile_into_cache()
        taken.append((kernel.name, perf_counter() - started))
    return taken


def main(names: Sequence[str]) -> None:
    """Compiles the named kernels in this process, or, without names, all kernels on all cores."""
    if names:
        compile_all(names)
    else:
        for _ in warm_up():
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
