"""The opwire service: executes plans and serves them over HTTP."""
