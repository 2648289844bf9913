"""Benchmarks: every speed that linrank claims, measured side by side in one run."""
