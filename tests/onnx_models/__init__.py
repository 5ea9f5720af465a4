"""Models for the tests of ``opwire.onnx``."""
