"""Matrix products, convolutions, recurrent networks and attention on the BLAS that NumPy brings."""
