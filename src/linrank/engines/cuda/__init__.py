"""The CUDA engine: the same sums as the thread engine's, on a graphics card."""
