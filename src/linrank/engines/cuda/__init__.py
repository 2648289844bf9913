"""The CUDA engine: the loss summed over all queries on a graphics card."""
