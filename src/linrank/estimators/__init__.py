"""The scikit-learn surface."""
