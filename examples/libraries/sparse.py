"""KLU, a sparse LU, as an operation: derivatives and a factor that is kept.

klujax's wheel has KLU's functions, and no header, hence the prototypes. A
factor is kept by the matrix: a gradient, and calls with the same matrix, solve
with the factor of the first call.
"""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

LIBRARY = pathlib.Path(importlib.util.find_spec("klujax_cpp").origin)


def product(row, start, a, x):
    """The matrix of these columns times x."""
    at = jnp.arange(a.size)
    column = jnp.searchsorted(start, at, side="right", method="sort") - 1
    return jnp.zeros_like(x).at[row].add(a * x[column])


def residual(x, row, start, a, b, *, transposed):
    times = jax.tree_util.Partial(product, row, start, a)
    if transposed:
        times = jax.linear_transpose(times, x)
        return times(x)[0] - b
    return times(x) - b


def by_klu(_, b, backwards, x, row, start, a, *others, transposed):
    return solve(row, start, a, b, transposed=transposed != backwards)


@xla_ffi_kit.inline(
    """
    #include <algorithm>
    #include <mutex>
    #include <stdexcept>
    #include <vector>
    #include "xla_ffi/core/kept.h"

    extern "C" {
    int klu_defaults(void*);
    void* klu_analyze(int n, int* start, int* row, void*);
    void* klu_factor(int* start, int* row, double* a, void* symbolic, void*);
    using Solver = int(void* symbolic, void* numeric, int, int, double*, void*);
    Solver klu_solve, klu_tsolve;
    int klu_free_symbolic(void**, void*);
    int klu_free_numeric(void**, void*);
    }

    // Where the entries are, and the order in which to eliminate.
    struct Pattern {
      Pattern(kit::In<int> row, kit::In<int> start)
          : row(row.begin(), row.end()), start(start.begin(), start.end()) {
        klu_defaults(common);
        symbolic = klu_analyze(start.size() - 1, this->start.data(),
                               this->row.data(), common);
        if (symbolic == nullptr) throw std::runtime_error("not a matrix");
      }
      ~Pattern() { klu_free_symbolic(&symbolic, common); }
      mutable std::vector<int> row, start;
      void* symbolic;
      alignas(16) mutable char common[1024];  // klu_common, and more
    };

    struct Factors {
      Factors(const kit::Kept<Pattern>& pattern, kit::Row<const double> a)
          : pattern(pattern) {
        std::copy_n(pattern->common, sizeof(common), common);
        std::vector<double> values(a.begin(), a.end());
        numeric = klu_factor(pattern->start.data(), pattern->row.data(),
                             values.data(), pattern->symbolic, common);
        if (numeric == nullptr) throw std::runtime_error("singular matrix");
      }
      ~Factors() { klu_free_numeric(&numeric, common); }
      void Solve(bool transposed, double* x) const {
        const std::lock_guard<std::mutex> lock(mutex);  // KLU writes in them
        const int n = pattern->start.size() - 1;
        (transposed ? klu_tsolve : klu_solve)(pattern->symbolic, numeric, n, 1,
                                              x, common);
      }
      int64_t bytes() const { return 64 * pattern->row.size(); }  // a guess
      kit::Kept<Pattern> pattern;
      void* numeric;
      mutable std::mutex mutex;
      alignas(16) mutable char common[1024];
    };

    void solve(kit::In<int> row, kit::In<int> start, kit::In<double> a,
               kit::In<double> b, bool transposed, kit::Out<double> x) {
      const kit::Kept<Pattern> pattern(row, start);
      for (int64_t r = 0; r < x.rows(); ++r) {
        const kit::Row<const double> values(a.row(r), a.columns());
        std::copy_n(b.row(r), b.columns(), x.row(r));
        kit::Kept<Factors>(pattern, values)->Solve(transposed, x.row(r));
      }
    }""",
    axes="(k),(s),(k),(n)->(n)",
    shared=("row", "start"),
    flags=[
        *(f"-L{LIBRARY.parent}", f"-l:{LIBRARY.name}"),
        f"-Wl,-rpath,{LIBRARY.parent}",
    ],
    has_reference=False,
    solves=residual,
    advanced=xla_ffi_kit.Advanced(linear_solve=by_klu),
)
def solve(row, start, a, b, *, transposed=False):
    """The x for which the matrix, or its transpose, times x is b.

    Entry i of `a` is in row `row[i]`; column j has those from `start[j]` on.
    """
    return jax.ShapeDtypeStruct(b.shape, b.dtype)
