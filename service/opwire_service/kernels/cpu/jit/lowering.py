"""Compilation of functions that only kernels call.

Numba generates machine code for every function, with wrappers for callers in Python and C. A function called only by
kernels is needed as LLVM IR alone: it becomes part of each kernel and is optimized there. This halves the kernels'
compile time and does not change the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import _dynfunc as functions  # type: ignore[attr-defined] # of C
from numba.core import codegen, compiler, funcdesc, lowering
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering

numba: Any = compiler
describe: Any = funcdesc.PythonFunctionDescriptor.from_specialized_function
Lower: Any = lowering.Lower


class PartOfKernels(codegen.JITCodeLibrary):
    """Code that is linked into kernels and never called by itself."""

    def _optimize_final_module(self) -> None:
        """Does nothing: kernels are optimized together with their callees."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class Lowered(NamedTuple):
    """Result of the lowering pass, with the fields that numba's next pass reads."""

    fndesc: Any
    call_helper: Any
    cfunc: Any
    env: Any


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class LoweringForKernels(LoweringPass):
    """Generates LLVM IR for a function and makes it callable from other functions."""

    _name = "lowering_for_kernels"

    def __init__(self) -> None:
        """Replaces numba's abstract initializer."""

    def run_pass(self, state: Any) -> Any:
        target = state.targetctx
        make: Any = PartOfKernels
        library = state.library = make(target.codegen(), state.func_id.func_qualname)
        described = describe(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=target.mangler,
            inline=state.flags.forceinline,
            noalias=state.flags.noalias,
            abi_tags=[state.flags.get_mangle_string()],
        )
        with target.push_code_library(library):
            lower = Lower(target, library, described, state.func_ir, metadata=state.metadata)
            lower.lower()
        library.finalize()
        # Numba identifies functions by the object that Python would call; here there is none, so the address is 0.
        uncalled = functions.make_function(described.lookup_module(), state.func_id.func_name, "", 0, lower.env, ())
        target.insert_user_function(uncalled, described, [library])
        state["cr"] = Lowered(described, lower.call_helper, uncalled, lower.env)
        return True


class ForKernels(compiler.CompilerBase):
    """Numba's compiler pipeline, with ``LoweringForKernels`` in place of the native lowering."""

    def define_pipelines(self) -> list[Any]:
        usual = numba.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = numba.PassManager("for_kernels")
        for each, why in usual.passes:
            passes.add_pass(LoweringForKernels if each is NativeLowering else each, why)
        passes.finalize()
        return [passes]
