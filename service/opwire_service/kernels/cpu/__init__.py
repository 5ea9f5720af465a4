"""The CPU kernels: numba functions on addresses, one module a family, and what prepares and calls them."""
