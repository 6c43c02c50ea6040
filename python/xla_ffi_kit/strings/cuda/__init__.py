"""Grids and images: CUDA kernels of strings."""
