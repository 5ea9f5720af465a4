"""Machine code of a kernel for one formula, by LLVM alone: some 50 ms, most of them without the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import binding, ir

_NAME = "elements"

INTEGER = ir.IntType(64)

SIGNATURE = ir.FunctionType(INTEGER, [INTEGER])
"""Of each kernel: it takes the address of its arguments."""

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


MachineCode = Callable[[int], int]
"""A kernel that can be called, without the GIL; it takes the address of its arguments, and owns its code."""


def begin() -> tuple[ir.Module, ir.Function]:
    """A module with the function of a kernel, to be filled."""
    module = ir.Module(_NAME)
    module.triple = binding.get_process_triple()
    function = ir.Function(module, SIGNATURE, _NAME)
    return module, function


_NARROW = '"min-legal-vector-width"="0" "prefer-vector-width"="256"'


def optimized(module: ir.Module, *, is_narrow: bool) -> tuple[Any, Any]:
    """What ``begin`` gave as LLVM compiles it, and for which machine.

    Args:
        module: the kernel.
        is_narrow: whether registers have 256 bits, which copy faster than wider ones.
    """
    text = str(module)
    if is_narrow:
        head = next(line for line in text.splitlines() if line.startswith("define"))
        text = text.replace(head, f"{head} {_NARROW}")  # llvmlite has no such attributes
    parsed = binding.parse_assembly(text)
    target = _target().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    options: Any = binding.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    passes = binding.create_pass_builder(target, options)
    passes.getModulePassManager().run(parsed, passes)
    return parsed, target


def compiled(module: ir.Module, *, is_narrow: bool = False) -> MachineCode:
    """The machine code of a module."""
    engine = binding.create_mcjit_compiler(*optimized(module, is_narrow=is_narrow))
    engine.finalize_object()
    call: Any = _PROTOTYPE(engine.get_function_address(_NAME))
    call.engine = engine  # whose end would be that of the machine code
    kernel: MachineCode = call
    return kernel


@cache
def converts_halves() -> bool:
    """Whether the processor converts FLOAT16: else LLVM calls functions that this process may not have."""
    is_x86 = binding.get_process_triple().startswith(("x86_64", "i686"))
    return not is_x86 or bool(binding.get_host_cpu_features().get("f16c"))


@cache
def has_sixteenths() -> bool:
    """Whether the processor looks up one of 16 FLOAT64 in registers."""
    is_x86 = binding.get_process_triple().startswith("x86_64")
    return is_x86 and bool(binding.get_host_cpu_features().get("avx512f"))


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())
