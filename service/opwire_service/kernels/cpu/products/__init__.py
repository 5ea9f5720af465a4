"""Matrix products, convolutions, recurrent networks and attention, on compiled kernels and NumPy's BLAS."""
