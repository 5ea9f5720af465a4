"""Devices on the nodes of a Ray cluster.

A separate process, the bridge, joins the cluster, because Ray terminates a process that loses its node or the head, and
the server must survive that. Server and bridge communicate over a socket and pass tensors in shared memory. Only the
modules of the bridge and of the nodes import ray.
"""
