"""Compilation of kernels by numba: decorator, cache on disk, instructions of processors."""
