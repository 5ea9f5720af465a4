"""What ``benchmarks.cuda_families`` measures: a module for each group of families, with the requests and the peers."""
