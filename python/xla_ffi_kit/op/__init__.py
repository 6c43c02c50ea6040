"""`FfiOp`: an operation, all of whose rules follow from a declarative spec."""
