"""The CUDA device for NVIDIA GPUs."""
