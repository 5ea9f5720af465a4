"""Clients for an opwire server.

``methods`` and ``calls`` turn arguments into calls; ``requests`` builds the HTTP requests and ``expected`` verifies the
answers; ``clients`` sends the requests through ``opwire.transport``.
"""

from .clients import AsyncClient, Client
from .graph_tensors import GraphTensor
from .graphs import Graph
from .local_client import LocalClient, local
from .options import CallOptions
from .preparation import prepare

__all__ = ["AsyncClient", "CallOptions", "Client", "Graph", "GraphTensor", "LocalClient", "local", "prepare"]
