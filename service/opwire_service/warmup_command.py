"""The command that compiles the kernels of the CPU device ahead of any request."""

from __future__ import annotations

from time import perf_counter

import typer


def warmup_command() -> None:
    """Compile the kernels of the CPU device, for a first request as fast as the later ones: a minute or two, once.

    They are kept in the folder NUMBA_CACHE_DIR, or next to the package where it is not set, for the processor at hand
    or the one that NUMBA_CPU_NAME names (x86-64-v3 for any server of the last decade).
    """
    from rich.console import Console
    from rich.progress import track

    from .kernels.cpu.families import KERNELS
    from .warmup import warm_up

    started = perf_counter()
    steps = track(warm_up(KERNELS), "compiling", len(KERNELS), console=Console(stderr=True))
    slowest, seconds = max(steps, key=lambda step: step[1])
    taken = perf_counter() - started
    typer.echo(f"{len(KERNELS)} kernels are ready after {taken:.1f} s; {slowest.name} took {seconds:.1f} s of them.")
