"""Measures opwire beside other servers that compute the same: one folder of servers, one module to describe each."""
