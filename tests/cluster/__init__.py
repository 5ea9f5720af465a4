"""Tests of servers with real Ray clusters, whose nodes are processes on this machine."""
