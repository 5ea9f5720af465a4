"""Entry point of the compiler process: compiles CPU kernels by name for the process that started it."""

from __future__ import annotations

from .families import KERNELS
from .jit.compiling import serve

if __name__ == "__main__":
    serve({kernel.name: kernel for kernel in KERNELS})
