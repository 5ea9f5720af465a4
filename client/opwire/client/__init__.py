"""Clients that run operators and graphs, on an opwire server or in this process.

``typed`` has a method for each operator, which ``declared`` makes from the schema; ``methods`` and ``reductions`` have
those that are written by hand; ``operands`` and ``calls`` turn their arguments into calls. ``requests`` builds the HTTP
requests and ``expected`` verifies the answers; ``clients`` sends the requests through ``opwire.transport``.
``local_client`` runs the calls in this process.
"""

from .arrays import strided
from .clients import AsyncClient, Client
from .graph_tensors import GraphTensor
from .graphs import Graph
from .local_client import LocalClient, local
from .options import CallOptions
from .preparation import prepare

__all__ = ["AsyncClient", "CallOptions", "Client", "Graph", "GraphTensor", "LocalClient", "local", "prepare", "strided"]
