"""How functions that kernels call are compiled: as far as kernels need them, and no further.

Numba makes machine code of every function, with wrappers for callers in Python and C. A function that only kernels call
is needed as LLVM's code alone: it becomes part of each kernel and is optimised there. That saves half of the time that
kernels take to compile, and nothing changes in them.
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
    """Code that is linked into kernels, and never called by itself."""

    def _optimize_final_module(self) -> None:
        """Kernels are optimised with all that they call in them."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class Lowered(NamedTuple):
    """What numba's next pass takes."""

    fndesc: Any
    call_helper: Any
    cfunc: Any
    env: Any


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class LoweringForKernels(LoweringPass):
    """Makes LLVM's code of a function, and lets other functions call it."""

    _name = "lowering_for_kernels"

    def __init__(self) -> None:
        """Numba's is abstract."""

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
        # Numba tells functions apart by what Python would call; here nothing would come of it.
        uncalled = functions.make_function(described.lookup_module(), state.func_id.func_name, "", 0, lower.env, ())
        target.insert_user_function(uncalled, described, [library])
        state["cr"] = Lowered(described, lower.call_helper, uncalled, lower.env)
        return True


class ForKernels(compiler.CompilerBase):
    """Numba's compiler, ending with ``LoweringForKernels``."""

    def define_pipelines(self) -> list[Any]:
        usual = numba.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = numba.PassManager("for_kernels")
        for each, why in usual.passes:
            passes.add_pass(LoweringForKernels if each is NativeLowering else each, why)
        passes.finalize()
        return [passes]
