"""Element-wise operators: small tensors by NumPy, larger ones by kernels compiled for each formula."""
