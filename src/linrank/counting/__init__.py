"""The ways to sum over preference pairs."""
