"""linrank: linear learning to rank at memory speed."""
