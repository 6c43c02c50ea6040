"""`FfiOp`: one declarative spec from which everything about it follows."""
