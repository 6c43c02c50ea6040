"""The kit's own operations, one module each."""
