"""Servers with real Ray clusters, whose nodes are processes of this machine."""
