"""Compiles single-formula kernels with LLVM directly: some 50 ms, most of it without the GIL."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Protocol

from llvmlite import binding, ir

_NAME = "elements"

INTEGER = ir.IntType(64)

SIGNATURE = ir.FunctionType(INTEGER, [INTEGER])
"""Signature of every kernel: it takes the address of its arguments."""


class MachineCode(Protocol):
    """A callable machine-code function that releases the GIL. It owns its code.

    Attributes:
        address: address of the code, for callers that are machine code themselves.
    """

    address: int

    def __call__(self, *arguments: int) -> int: ...


def begin(signature: ir.FunctionType = SIGNATURE) -> tuple[ir.Module, ir.Function]:
    """Returns a new module and an empty function in it."""
    module = ir.Module(_NAME)
    module.triple = binding.get_process_triple()
    function = ir.Function(module, signature, _NAME)
    return module, function


_NARROW = '"min-legal-vector-width"="0" "prefer-vector-width"="256"'
"""LLVM attributes that limit vector registers to 256 bits."""


def optimized(module: ir.Module, *, is_narrow: bool) -> tuple[Any, Any]:
    """Returns a module optimized by LLVM, and its target machine.

    Args:
        module: the kernel, from ``begin``.
        is_narrow: whether to use 256-bit registers, which copy faster than wider ones.
    """
    text = str(module)
    if is_narrow:
        head = next(line for line in text.splitlines() if line.startswith("define"))
        text = text.replace(head, f"{head} {_NARROW}")  # llvmlite does not support these attributes
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
    """Compiles a module whose function takes integers and addresses and returns an integer."""
    engine = binding.create_mcjit_compiler(*optimized(module, is_narrow=is_narrow))
    engine.finalize_object()
    address = engine.get_function_address(_NAME)
    kind_of = module.get_global(_NAME).ftype
    result, *arguments = (
        getattr(ctypes, f"c_int{kind.width}") if isinstance(kind, ir.IntType) else ctypes.c_void_p
        for kind in (kind_of.return_type, *kind_of.args)
    )
    call: Any = ctypes.CFUNCTYPE(result, *arguments)(address)
    call.address = address
    call.engine = engine  # keeps the machine code alive
    kernel: MachineCode = call
    return kernel


@cache
def converts_halves() -> bool:
    """Whether the processor converts FLOAT16; otherwise LLVM calls library functions that this process may not have."""
    is_x86 = binding.get_process_triple().startswith(("x86_64", "i686"))
    return not is_x86 or bool(binding.get_host_cpu_features().get("f16c"))


@cache
def has_sixteenths() -> bool:
    """Whether the processor can look up one of 16 FLOAT64 in registers."""
    is_x86 = binding.get_process_triple().startswith("x86_64")
    return is_x86 and bool(binding.get_host_cpu_features().get("avx512f"))


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())
