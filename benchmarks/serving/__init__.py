"""Measures opwire and other servers on the same task: a folder of servers, and one module to describe each."""
