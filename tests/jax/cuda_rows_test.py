"""What rows of strings read and write in memory on CUDA, in the emulator."""

import emulated_cuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inline_data import close

import xla_ffi_kit

# Of each size one, but that of 4 bytes, which other tests have.
_DTYPES = ["float64", "bfloat16", "int8"]
_SIZES = [1, 3, 8, 17, 32, 67]


@pytest.fixture(scope="module", autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def _rows(body, results=("out",), dtypes="f32", *, reference, **options):
    options |= {"results": list(results), "dtypes": dtypes}
    op = xla_ffi_kit.rows(body, platforms=("cuda",), **options)(reference)
    return emulated_cuda.emulated(op)


def _values(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(
        rng.integers(0, 2 if dtype == "bool" else 90, shape)
    ).astype(dtype)


_ORDERS = {
    "forwards": "for (int64_t i = 0; i < x.size(); ++i)",
    "backwards": "for (int64_t i = x.size() - 1; i >= 0; --i)",
    "scattered": "for (int64_t k = 0, i = 0; k < x.size();"
    " ++k, i = (i + 37) % x.size())",
}


@pytest.mark.parametrize("dtype", _DTYPES)
def test_any_order_and_what_was_written(dtype):
    """Each order has arrays of its own; a sum reads what it has written."""
    body = "\n".join(
        f"{loop.replace('x', array)} {name}[i] = {array}[i];"
        for array, (name, loop) in zip("xyz", _ORDERS.items(), strict=True)
    )
    body += """
    sums[0] = w[0];
    for (int64_t i = 1; i < w.size(); ++i) sums[i] = sums[i - 1] + A(w[i]);
    """

    def reference(x, y, z, w):
        return x, y, z, jnp.cumsum(w.astype(float), -1).astype(dtype)

    op = _rows(body, [*_ORDERS, "sums"], dtypes=[dtype], reference=reference)
    # 37 is prime to each of the sizes, and so every element has its turn.
    for size in _SIZES:
        arrays = [_values(dtype, (5, size), seed) for seed in range(3)]
        # Whose sums every dtype has.
        small = arrays[0] & False if dtype == "bool" else arrays[0] % 2
        operands = [*arrays, small]
        want = reference(*map(jnp.asarray, operands))
        close(op(*operands), want)


def test_reads_far_back_and_writes_twice():
    body = """
    for (int64_t i = 0; i < x.size(); ++i) {
      out[i] = x[i];
      if (i >= 3) out[i - 3] += out[i];
      if (i >= 9) std::swap(out[i - 9], out[i - 2]);
      out[i] *= 2;
      ++out[i];
      T kept = out[i / 2];
      out[i / 2] = std::max(kept, x[i]);
    }
    """

    before = "#include <algorithm>"
    op = _rows(body, dtypes="s32", before=before, reference=lambda x: x)
    for size in _SIZES:
        x = np.asarray(_values("int32", (2, size)))
        want = np.zeros_like(x)
        for row, out in zip(x, want, strict=True):
            for i in range(size):
                out[i] = row[i]
                if i >= 3:
                    out[i - 3] += out[i]
                if i >= 9:
                    out[i - 9], out[i - 2] = out[i - 2], out[i - 9]
                out[i] = 2 * out[i] + 1
                out[i // 2] = max(out[i // 2], row[i])
        np.testing.assert_array_equal(op(x), want, str(size))


_IN_PLACE = (
    f"{_ORDERS['forwards']} out[i] = x[i] + 1;",
    f"{_ORDERS['backwards']} out[i] = x[i] + 1;",
    "kit::for_each(x, out, [&](auto v) { return v + 1; });",
    "kit::for_each_reversed(x, out, [&](auto v) { return v + 1; });",
)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_operand_and_result_may_share_a_buffer(dtype):
    """Of each form one, in one kernel."""

    def add_one(a, b, c, d):
        return a + 1, b + 1, c + 1, d + 1

    results = [f"{x}_out" for x in "abcd"]
    body = [
        code.replace("out", out).replace("x", x)
        for x, out, code in zip("abcd", results, _IN_PLACE, strict=True)
    ]
    op = _rows(
        "\n".join(body),
        results,
        dtypes=[dtype],
        reference=add_one,
        aliases=dict(zip("abcd", range(4), strict=True)),
    )
    call = jax.jit(op, donate_argnums=(0, 1, 2, 3))
    for size in _SIZES:
        operands = [_values(dtype, (37, size), seed) for seed in range(4)]
        want = [np.asarray(x) + np.asarray(1, dtype) for x in operands]
        close(call(*operands), want)


def test_writes_nothing_of_other_rows():
    """Every second row is written, in turns that overlap."""

    def every_second(x, y):
        return x, y

    op = _rows(
        """
        if (int64_t(x[0]) % 2 == 0) {
          for (int64_t i = 0; i < out.size(); ++i) out[i] = x[i] + 1;
          kit::for_each(y, even, [&](auto v) { return v + 1; });
        }
        """,
        ["out", "even"],
        dtypes="s8",
        reference=every_second,
        aliases={"x": 0, "y": 1},
    )
    call = jax.jit(op, donate_argnums=(0, 1))
    for size in _SIZES:
        x = np.array(_values("int8", (40, size)))
        x[:, 0] = np.arange(40)
        want = np.where(np.arange(40)[:, None] % 2 == 0, x + 1, x)
        for got in call(jnp.asarray(x), jnp.array(x)):
            np.testing.assert_array_equal(got, want, str(size))


@pytest.mark.parametrize("operands", [3, 8])
def test_even_form_of_many_arrays_has_narrow_tiles(operands):
    names = [f"x{i}" for i in range(operands)]
    arguments = ", ".join(f"auto v{i}" for i in range(operands))
    total = " + ".join(f"v{i}" for i in range(operands))
    reference = eval(f"lambda {', '.join(names)}: {' + '.join(names)}")
    op = _rows(
        f"kit::for_each({', '.join(names)}, out, [&]({arguments}) "
        f"{{ return {total}; }});",
        dtypes="f64",
        reference=reference,
    )
    xs = [_values("float64", (35, 41), i) for i in range(operands)]
    np.testing.assert_array_equal(op(*xs), sum(xs))


def test_even_form_after_rows_went_their_own_ways():
    body = """
    A sum = 0;
    for (int64_t i = 0; i < int64_t(x[0]); ++i) sum += i;
    if (int64_t(x[0]) % 3 != 0) {
      kit::for_each(x, out, [&](auto v) { return v + sum; });
    } else {
      out[0] = -1;
      for (int64_t i = 1; i < x.size(); ++i) out[i] = out[0];
    }
    A last = 0;
    kit::for_each_reversed(x, more, [&](auto v) { return last += v; });
    more[0] += sum;
    """

    def reference(x):
        n = x[..., :1]
        total = n * (n - 1) / 2
        out = jnp.where(n % 3 != 0, x + total, -1)
        more = jnp.flip(jnp.cumsum(jnp.flip(x, -1), -1), -1)
        return out, more.at[..., 0].add(total[..., 0])

    op = _rows(body, results=["out", "more"], reference=reference)
    x = np.array(_values("float32", (70, 45)))
    x[:, 0] = np.arange(70) % 11
    close(op(x), reference(jnp.asarray(x)), 1e-6)


def test_shared_rows_attributes_and_continue():
    body = """
    if (label == "skip") {
      out[0] = 7;
      continue;
    }
    A sum = 0;
    kit::for_each(x, weight, out, [&](auto v, auto w) { return w * v; });
    for (const T v : x) sum += v;
    for (int64_t i = 0; i < factors.size(); ++i) out[0] += factors[i] * sum;
    out[1] = is_on ? A(count) : A(weight[1]);
    """

    def op(x, weight, *, factors, label="", is_on=True, count=3):
        out = x * weight
        first = out[..., 0] + sum(factors) * jnp.sum(x, -1)
        out = out.at[..., 0].set(first)
        return out.at[..., 1].set(count if is_on else weight[1])

    emulated = _rows(
        body,
        reference=op,
        shared="weight",
        attributes={"factors": (np.float64,)},
    )
    x, weight = _values("float32", (3, 5)), _values("float32", (5,), 1)
    for attributes in (
        {"factors": (1.0, 2.0)},
        {"factors": (0.5,) * 20, "is_on": False, "label": "a label"},
        {"factors": (), "count": -9},
    ):
        np.testing.assert_allclose(
            emulated(x, weight, **attributes), op(x, weight, **attributes), 1e-6
        )
    got = emulated(x, weight, factors=(1.0,), label="skip")
    np.testing.assert_array_equal(got[:, 0], 7)


def test_what_ends_a_row():
    def ramp(x):
        return jnp.where(x[..., :1] < 12, 7, x)

    op = xla_ffi_kit.rows(
        """
        for (int64_t i = 0; i < x.size(); ++i) out[i] = 7;
        if (x[0] < 4) return;
        if (x[0] < 8) continue;
        if (x[0] < 12) break;
        for (int64_t i = 0; i < x.size(); ++i) out[i] = x[i];
        """,
        dtypes="f32",
        flags=["-O1"],
    )(ramp)
    x = jnp.arange(80, dtype=jnp.float32).reshape(40, 2)
    for each in (op, emulated_cuda.emulated(op)):
        np.testing.assert_array_equal(each(x), ramp(x))


def test_what_ends_an_element():
    def clipped(x, y):
        return jnp.minimum(x, 4), y

    op = xla_ffi_kit.elementwise(
        "({ if (x > 4) return 4; x; })", "y", dtypes="f32", flags=["-O1"]
    )(clipped)
    x = jnp.arange(80, dtype=jnp.float32)
    for each in (op, emulated_cuda.emulated(op)):
        close(each(x, -x), clipped(x, -x))


@pytest.mark.parametrize("dtype", _DTYPES)
def test_elements(dtype):
    on_gpus = xla_ffi_kit.elementwise(
        "y", "x", dtypes=[dtype], platforms=("cuda",)
    )(lambda x, y: (y, x))
    op = emulated_cuda.emulated(on_gpus)
    for shape in ((), (1,), (3,), (16,), (17,), (4, 1031), (0,), (3, 0)):
        x, y = _values(dtype, shape), _values(dtype, shape, 1)
        close(op(x, y), (y, x))


def test_nothing_to_do():
    op = _rows("out[0] = x[0];", reference=lambda x: x)
    before = emulated_cuda.launches()
    assert op(jnp.ones((0, 3), jnp.float32)).shape == (0, 3)
    assert emulated_cuda.launches() == before
