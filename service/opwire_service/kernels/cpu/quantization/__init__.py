"""Quantization and dequantization: by NumPy on tiles, or by formula kernels."""
