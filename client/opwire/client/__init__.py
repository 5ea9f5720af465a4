"""The clients of an opwire server.

``methods`` and ``calls`` make calls from arguments; ``requests`` and ``expected`` say what is sent for them and what
may come back; ``clients`` sends it by ``opwire.transport``.
"""

from .clients import AsyncClient, Client
from .graphs import Graph, GraphTensor
from .options import CallOptions
from .preparation import prepare

__all__ = ["AsyncClient", "CallOptions", "Client", "Graph", "GraphTensor", "prepare"]
