"""The cells of ``benchmarks.cuda_families``: one module per group of families, with requests and peers."""
