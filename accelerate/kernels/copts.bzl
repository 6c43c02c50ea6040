"""Compiler options that several kernels share."""

# For kernels with loops that are gcc's to vectorize: -O3 would make the rest
# half as large again, and no faster.
VECTORIZED_O2 = ["-O2"] + select({
    "@rules_cc//cc/compiler:gcc": [
        "-ftree-vectorize",
        "-fvect-cost-model=dynamic",
    ],
    "//conditions:default": [],
})
