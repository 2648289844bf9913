"""Benchmarks of all speeds that linrank claims, measured side by side in one run."""
