"""Some kernels of the benchmark of strings in NVIDIA Warp, on its CPU.

Its adjoint of a loop needs every state in an array.
"""

import numpy as np
import warp as wp

_Line = wp.array(dtype=float)
_Rows = wp.array2d(dtype=float)


@wp.kernel
def _smoothing(x: _Rows, out: _Rows):
    r = wp.tid()
    out[r, 0] = 0.125 * x[r, 0]
    for i in range(1, x.shape[1]):
        out[r, i] = out[r, i - 1] + 0.125 * (x[r, i] - out[r, i - 1])


@wp.func
def _slope(u: float, w: float):
    return wp.vec2(1.5 * u - u * w, u * w - 3.0 * w)


@wp.kernel
def _lotka_volterra(x: _Rows, ws: _Rows, out: _Rows):
    r = wp.tid()
    h = 6.0 / 512.0
    for i in range(x.shape[1]):
        before = wp.max(i - 1, 0)
        u = wp.where(i == 0, 1.0, out[r, before]) + 0.0078125 * x[r, i]
        w = wp.where(i == 0, 1.0, ws[r, before])
        a = _slope(u, w)
        b = _slope(u + h / 2.0 * a[0], w + h / 2.0 * a[1])
        c = _slope(u + h / 2.0 * b[0], w + h / 2.0 * b[1])
        d = _slope(u + h * c[0], w + h * c[1])
        step = h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        out[r, i] = u + step[0]
        ws[r, i] = w + step[1]


@wp.kernel
def _soft_dtw(x: _Rows, m: _Line, table: wp.array3d(dtype=float), out: _Line):
    r = wp.tid()
    for i in range(x.shape[1]):
        for j in range(m.shape[0]):
            corner, left, up = (
                table[r, i, j],
                table[r, i + 1, j],
                table[r, i, j + 1],
            )
            low = wp.min(corner, wp.min(left, up))
            ways = wp.exp(low - corner) + wp.exp(low - left) + wp.exp(low - up)
            d = x[r, i] - m[j]
            table[r, i + 1, j + 1] = d * d + low - wp.log(ways)
    out[r] = table[r, x.shape[1], m.shape[0]]


def _table(x, m):
    table = np.full((len(x), x.shape[1] + 1, m.size + 1), 1e6, np.float32)
    table[:, 0, 0] = 0
    return table


# Kernel, what it keeps beside operands, and the result's shape.
_KERNELS = {
    "exponential smoothing": (_smoothing, None, np.shape),
    "Lotka-Volterra, RK4": (_lotka_volterra, np.zeros_like, np.shape),
    "soft-DTW": (_soft_dtw, _table, len),
}


def calls(name, operands, ct):
    """Calls for the value, and for value and gradient; None without a kernel.

    Args:
      name: the kernel's.
      operands: arrays of f32, the first with an axis of rows.
      ct: the cotangent of the result.
    """
    if name not in _KERNELS:
        return None
    kernel, kept, shape = _KERNELS[name]
    rows = len(operands[0])

    def array(x):
        return wp.array(x, dtype=float, device="cpu", requires_grad=True)

    given = [array(x) for x in operands]
    inputs = [*given, *([array(kept(*operands))] if kept else [])]
    out = array(np.zeros(shape(operands[0]), np.float32))
    slope = wp.array(ct, dtype=float, device="cpu")

    def value():
        wp.launch(kernel, rows, inputs, [out], device="cpu")
        return out.numpy()

    with wp.Tape() as tape:
        value()

    def gradient():
        tape.zero()
        value()
        tape.backward(grads={out: slope})
        return out.numpy(), *(x.grad.numpy() for x in given)

    return value, gradient
