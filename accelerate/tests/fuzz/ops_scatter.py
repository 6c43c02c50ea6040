"""Programs of scatters: what an index, or a few, set or change."""

import fuzz_values
import ops_rows
from fuzz_program import Builder

_METHODS = ("set", "add", "max", "min", "multiply")
_MODES = ("", "clip", "promise_in_bounds", "drop")


def scatter(b: Builder) -> None:
    """JAX drops what is out of range, unless it is told otherwise."""
    method = b.draw.one_of(_METHODS)
    options = ["float32", "int32", "float64", "float32", "uint8", "int64"]
    if method == "set":
        options = [*ops_rows.REAL, "complex64"]
    dtype = ops_rows.dtypes(b, options)
    length = b.draw.one_of((5, 8, 2, 16, 43, 1))
    inner = b.draw.one_of(((), (3,), (2, 2)))
    axis = b.draw.below(len(inner) + 1)
    x = b.array((*inner[:axis], length, *inner[axis:]), dtype, *fuzz_values.ANY)
    count = b.draw.one_of((2, 3, 2, 3, 1, 4))
    mode = b.draw.one_of(_MODES)
    beyond = 0 if mode == "promise_in_bounds" else 2
    at = b.array((count,), "int32", f"below:{length + 2 * beyond}")
    update = b.array(
        (*inner[:axis], count, *inner[axis:]), dtype, *fuzz_values.ANY
    )
    place = ", ".join([":"] * axis + [f"{at} - {beyond}"])
    extra = f", mode='{mode}'" if mode else ""
    b.last = x
    b.line(f"{{x}}.at[{place}].{method}({update}{extra})")
    if method != "set" and "float" in dtype:
        b.program.judge = "flushed"
