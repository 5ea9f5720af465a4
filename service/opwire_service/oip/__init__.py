"""The Open Inference Protocol, version 2. Operators are its models, and feature levels are their versions.

Source: the protocol's REST document, and the binary tensor, statistics and model configuration extensions as used by
Triton's clients.
"""
