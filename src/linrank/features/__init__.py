"""What is done to the features before they are weighted: filling, logarithm, clipping, scaling."""
