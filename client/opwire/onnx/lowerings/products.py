"""Products of matrices."""

from __future__ import annotations

from ...client.graph_tensors import GraphTensor
from ..lowering import NodeLowering, lifted, lowers, spread


@lowers("Gemm")
def gemm(node: NodeLowering) -> GraphTensor:
    """Lowers Alpha A B + Beta C of matrices."""
    a, b = node.lifted(0), node.lifted(1)
    trans_a, trans_b = bool(node.attribute("transA")), bool(node.attribute("transB"))
    sizes = (1, 1, a.sizes[2 + trans_a], b.sizes[3 - trans_b])
    c = spread(lifted(node.tensor(2), 4), sizes) if node.has(2) else None
    return node.emit(
        "GEMM",
        ATensor=a,
        BTensor=b,
        CTensor=c,
        TransA="TRANSPOSE" if trans_a else "NONE",
        TransB="TRANSPOSE" if trans_b else "NONE",
        Alpha=node.attribute("alpha"),
        Beta=node.attribute("beta"),
    )
