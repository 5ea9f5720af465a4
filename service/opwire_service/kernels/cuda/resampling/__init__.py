"""Interpolation on the GPU: resampling and regions of interest."""
