"""The ``warmup`` command, which compiles kernels ahead of time."""

from __future__ import annotations

from contextlib import closing
from time import perf_counter
from typing import Annotated

import typer

from ..devices import AUTO, NUMBERED, kind_of, load, resolve
from ..devices.base import Device, DeviceUnavailable
from .serve import device_name


def warmup_command(
    devices: Annotated[
        list[str] | None,
        typer.Option(
            "--device", metavar="NAME", help="Device to prepare; repeatable. [default: auto, all available devices]"
        ),
    ] = None,
) -> None:
    """Compile all kernels ahead of time.

    This takes a few minutes, once, and makes first requests fast.

    CPU kernels are stored in the folder NUMBA_CACHE_DIR, by default next to the package. They are compiled for this
    CPU, or for the one named by NUMBA_CPU_NAME (x86-64-v3 for any server of the last decade). GPU kernels are stored
    in the folder OPWIRE_KERNEL_CACHE, by default in the user's cache.
    """
    try:
        names = resolve([name if name == AUTO else device_name(name) for name in devices or (AUTO,)])
    except DeviceUnavailable as reason:
        raise typer.BadParameter(str(reason), param_hint="--device") from None
    if "cpu" in names:
        _compile_for_cpu()
    cards = [name for name in names if kind_of(name) in NUMBERED]
    for name in cards:
        with closing(load(name)) as card:
            _compile_for_card(card)


def _compile_for_cpu() -> None:
    from rich.console import Console
    from rich.progress import track

    from ..kernels.cpu.families import KERNELS
    from ..kernels.cpu.warmup import warm_up

    started = perf_counter()
    steps = track(warm_up(KERNELS), "compiling", len(KERNELS), console=Console(stderr=True))
    slowest, seconds = max(steps, key=lambda step: step[1])
    taken = perf_counter() - started
    typer.echo(f"{len(KERNELS)} kernels ready after {taken:.1f} s; {slowest} was slowest, with {seconds:.1f} s.")


def _compile_for_card(card: Device) -> None:
    from ..engine.warmup_plans import usual_plans

    started = perf_counter()
    count = sum(1 for _ in card.warm_up(usual_plans()))
    typer.echo(f"{card.name}: {count} programs ready after {perf_counter() - started:.1f} s.")
