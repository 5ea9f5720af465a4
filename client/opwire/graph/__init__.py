"""Graphs of operators, checked and turned into a single plan.

Source: the pages on ``DML_GRAPH_DESC`` and ``IDMLDevice1::CompileGraph``.
"""

from .checking import GRAPHS_FROM, GraphValidation, check_graph, validate_graph
from .constants import CONSTANT, with_constants, without_constants
from .form import MOST_EDGES, MOST_NODES
from .names import INPUT
from .plan import GRAPH, Bytes, Place, Step, Steps, operator_plans
from .spelling import as_named, as_numbered

__all__ = [
    "CONSTANT",
    "GRAPH",
    "GRAPHS_FROM",
    "INPUT",
    "MOST_EDGES",
    "MOST_NODES",
    "Bytes",
    "GraphValidation",
    "Place",
    "Step",
    "Steps",
    "as_named",
    "as_numbered",
    "check_graph",
    "operator_plans",
    "validate_graph",
    "with_constants",
    "without_constants",
]
