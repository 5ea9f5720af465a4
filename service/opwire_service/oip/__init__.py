"""The Open Inference Protocol, version 2: an operator is a model, a feature level is its version. Knows no HTTP.

Source: the protocol's REST document and the binary tensor, statistics and model configuration extensions as the
clients of Triton use them.
"""
