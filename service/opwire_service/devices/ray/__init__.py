"""Devices on the nodes of a Ray cluster.

A process of its own, the bridge, belongs to the cluster: Ray ends a process that loses its node or the head, and a
server must not end with them. The server speaks with it over a socket, and has tensors in memory that both share. Only
the modules of the bridge and of the nodes import ray.
"""
