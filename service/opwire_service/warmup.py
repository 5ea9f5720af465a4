"""Compiles the kernels of the CPU device into the cache on disk, ahead of any request.

The cache lies next to the package, or where ``NUMBA_CACHE_DIR`` says. It holds code for the processor at hand; with
``NUMBA_CPU_NAME=x86-64-v3`` and an empty ``NUMBA_CPU_FEATURES``, for any server processor of the last decade.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import perf_counter

from .kernels.cpu.compiler import Kernel
from .kernels.cpu.families import KERNELS


def warm_up(kernels: Sequence[Kernel] = KERNELS) -> Iterator[tuple[Kernel, float]]:
    """Compiles kernels one by one, or finds them in the cache; yields each with the seconds that it took."""
    for kernel in kernels:
        started = perf_counter()
        kernel.compile()
        yield kernel, perf_counter() - started


def main(names: Sequence[str]) -> None:
    """Compiles the kernels of the given names; of none, all."""
    chosen = [kernel for kernel in KERNELS if kernel.name in names] if names else KERNELS
    for _ in warm_up(chosen):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
