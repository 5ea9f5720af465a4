"""What computes: one package a device, in it one module a family of operators."""
