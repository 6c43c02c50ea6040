"""FINUFFT's transform as an operation: linear in values, curved in points.

finufft's wheel has the library, and no header. A plan, for which FINUFFT sorts
the points, is kept by them: derivatives, adjoint and iterations share it.
"""

import pathlib

import finufft
import jax
import jax.numpy as jnp
from finufft._finufft import FinufftOpts

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

FOLDER = pathlib.Path(finufft.__file__).parent
THREADS = FinufftOpts.nthreads.offset // 4  # which of the options it is


def jvp(primals, tangents, *, modes):
    (values, points), (dvalues, dpoints) = primals, tangents
    n = modes or values.shape[-1]
    slope = 1j * (jnp.arange(n) - n // 2)

    def at(values):
        return transform(values, points, modes=modes)

    if modes:
        towards_points = -slope * at(dpoints * values)
    else:
        towards_points = dpoints * at(slope * values)
    return at(values), at(dvalues) + towards_points


def transpose(ct, values, points, *, modes):
    # JAX's transposes conjugate nothing, and an adjoint does.
    n = 0 if modes else values.shape[-1]
    return transform(ct.conj(), points, modes=n).conj()


@xla_ffi_kit.inline(
    """
    #include <complex>
    #include <stdexcept>
    #include <string>
    #include <vector>
    #include "xla_ffi/core/kept.h"

    using Complex = std::complex<double>;
    extern "C" {
    void finufft_default_opts(void* options);
    int finufft_makeplan(int type, int dim, const int64_t* modes, int sign,
                         int count, double tolerance, void** plan, void*);
    int finufft_setpts(void* plan, int64_t, double* x, double*, double*,
                       int64_t, double*, double*, double*);
    int finufft_execute(void* plan, Complex* values, Complex* modes);
    int finufft_execute_adjoint(void* plan, Complex* values, Complex* modes);
    int finufft_destroy(void* plan);
    }

    struct Plan {
      Plan(kit::Row<const double> points, int64_t modes)
          : x(points.begin(), points.end()) {
        alignas(16) int options[256];  // 31 in FINUFFT 2.5
        finufft_default_opts(options);
        options[THREADS] = 1;  // XLA has threads of its own
        int e = finufft_makeplan(2, 1, &modes, 1, 1, 1e-12, &plan, options);
        if (e <= 1) e = finufft_setpts(plan, x.size(), &x[0], 0, 0, 0, 0, 0, 0);
        if (e > 1) throw std::runtime_error("FINUFFT " + std::to_string(e));
      }
      ~Plan() { finufft_destroy(plan); }
      std::vector<double> x;  // a plan refers to it
      void* plan = nullptr;
    };

    void transform(kit::In<Complex> values, kit::In<double> points,
                   int64_t modes, kit::Threads threads, kit::Out<Complex> y) {
      const int64_t n = values.columns(), m = points.columns();
      threads.For(values.rows(), 50 * m, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const kit::Row<const double> at(points.row(r), m);
          kit::PerThread<Plan> plan(at, modes == 0 ? n : modes);
          std::vector<Complex> copy(values.row(r), values.row(r) + n);
          if (modes == 0) finufft_execute(plan->plan, y.row(r), &copy[0]);
          else finufft_execute_adjoint(plan->plan, &copy[0], y.row(r));
        }
      });
    }""",
    kernel_axes=1,
    has_reference=False,
    jvp=jvp,
    linear="values",
    transpose=transpose,
    flags=[
        *(f"-L{FOLDER}", "-l:libfinufft.so", f"-Wl,-rpath,{FOLDER}"),
        f"-DTHREADS={THREADS}",
    ],
)
def transform(values, points, *, modes=0):
    """The sums over k of values[k] exp(i k x) at all points x.

    With `modes`, the adjoint: for so many k, around 0, the sums over all points
    of values exp(-i k x).
    """
    return jax.ShapeDtypeStruct((modes or points.size,), values.dtype)
