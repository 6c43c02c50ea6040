"""Files, flags and compilers; nothing here knows an operation."""
