"""Vector loads of strided numbers from scratch buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..jit.element import ADDRESS, intrinsic
from .vectors import DOUBLES, WIDTH


@intrinsic
def load_even(typing: Any, address: Any, index: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads every other float64 from index ``index`` on; also reads the one after the last."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(builder.inttoptr(args[0], ir.DoubleType().as_pointer()), [args[1]])
        whole = builder.load(builder.bitcast(first, ir.VectorType(ir.DoubleType(), 2 * WIDTH).as_pointer()), align=8)
        chosen = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), list(range(0, 2 * WIDTH, 2)))
        return builder.shuffle_vector(whole, whole, chosen)

    return DOUBLES(ADDRESS, ADDRESS), code
