"""CPU kernels: numba functions that work on raw addresses, one package per family, and the code that prepares and calls
them."""
