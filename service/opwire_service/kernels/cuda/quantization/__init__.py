"""Quantization and quantized arithmetic on the GPU."""
