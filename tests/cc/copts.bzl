"""How to compile files that include XLA's own headers, and do no work."""

# XLA's headers are large, and these files do no work of their own: without
# optimisation they compile in half the time, and in a tenth less where gcc does
# not look for memory to free all the time.
XLA_HEADERS_COPTS = [
    "-O0",
    "--param=ggc-min-expand=400",
    "--param=ggc-min-heapsize=400000",
]
