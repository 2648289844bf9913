"""What only the papers use, and no automatic choice: one file per paper."""
