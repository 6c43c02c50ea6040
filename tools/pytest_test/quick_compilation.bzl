"""The environment of tests in JAX that compile more than they compute."""

# Such tests compile thousands of small programs: in less than half the time
# where LLVM optimises none, where a program is one module and where XLA's CPU
# backend emits fusions as LLVM IR instead of through MLIR (jaxlib 0.12 does not
# any more, and ends with "Unknown flag": then that line goes). XLA's own passes
# and the handlers are as ever, and tests/compat runs the same tests without
# all this. Not for tests that compare arithmetic with JAX's own code bit for bit.
QUICK_COMPILATION = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": " ".join([
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_cpu_use_fusion_emitters=false",
    ]),
}
