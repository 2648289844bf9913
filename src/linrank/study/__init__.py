"""Many methods, folds and settings compared by one protocol."""
