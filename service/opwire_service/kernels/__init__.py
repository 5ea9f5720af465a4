"""Kernels: one package per device, each with one module per operator family."""
