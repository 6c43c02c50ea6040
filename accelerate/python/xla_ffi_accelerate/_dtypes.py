"""Sets of dtypes, by name."""

HALF = ("float16", "bfloat16")
FLOATS = (*HALF, "float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
# Equal elements are interchangeable: there is one zero and no NaN.
WITHOUT_TIES = ("bool", *SIGNED, *UNSIGNED)
# The dtypes that sort and the hash table take.
REAL = (*WITHOUT_TIES, *FLOATS)
