"""CPU kernels: numba functions on raw addresses, one package per family, and the code that prepares and calls them."""
