"""Vectors of ranks in the memory of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

from ..jit.element import ADDRESS, intrinsic, metadata_of_written, pointer_to


@intrinsic
def store_ranks(typing: Any, address: Any, index: Any, vector: Any) -> tuple[Any, Callable[..., Any]]:
    """Puts ranks, as many as a vector has, from ``index`` ranks after an address on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = args[2].type
        first = builder.gep(pointer_to(builder, args[0], kind.element), [args[1]])
        stored = builder.store(args[2], builder.bitcast(first, kind.as_pointer()), align=vector.lane.bitwidth // 8)
        stored.set_metadata("alias.scope", metadata_of_written(builder))
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, vector), code
