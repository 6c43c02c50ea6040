"""CVODE, a stiff integrator, with an adjoint: a wheel without C headers."""

import functools
import pathlib

import jax
import sksundae

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

FOLDER = pathlib.Path(sksundae.__file__).parents[1] / "scikit_sundae.libs"
PARTS = ("core", "nvecserial", "sunmatrixdense", "sunlinsoldense", "cvode")
NAMES = [next(FOLDER.glob(f"libsundials_{part}-*")).name for part in PARTS]


@xla_ffi_kit.rows(
    """
    const kit::Kept<Solution> solution(y, k, end);  // the adjoint's, too
    double state[] = {ct[0], ct[1], ct[2], 0, 0, 0};
    if (backward) solution->Adjoint(state);
    std::copy_n(backward ? state : solution->steps.back().y, 3, &out[0]);
    std::copy_n(state + 3, 3, &dk[0]);
    """,
    before="""
    #include <algorithm>
    #include <vector>
    #include "xla_ffi/core/kept.h"
    extern "C" {
    int SUNContext_Create(int, void**), SUNContext_Free(void**);
    void *N_VMake_Serial(int64_t, double*, void*), N_VDestroy(void*);
    void *SUNDenseMatrix(int64_t, int64_t, void*), SUNMatDestroy(void*);
    void *SUNLinSol_Dense(void*, void*, void*), *CVodeCreate(int, void*);
    double* N_VGetArrayPointer(void*);
    int CVodeInit(void*, int (*)(double, void*, void*, void*), double, void*),
        CVodeSetUserData(void*, void*), CVodeSetStopTime(void*, double),
        CVodeSetLinearSolver(void*, void*, void*), SUNLinSolFree(void*),
        CVodeSStolerances(void*, double, double),
        CVode(void*, double, void*, double*, int);
    void CVodeFree(void**);
    }
    // Takes y from time 0 to `end` by its rates f; `each` is called for all t.
    template <typename F, typename Each>
    void Integrate(int n, double* y, double end, double least, F f, Each each) {
      void* context;
      SUNContext_Create(0, &context);
      void* vector = N_VMake_Serial(n, y, context);
      void* matrix = SUNDenseMatrix(n, n, context);
      void* solver = SUNLinSol_Dense(vector, matrix, context);
      void* cvode = CVodeCreate(2, context);  // BDF
      auto call = [](double t, void* y, void* dy, void* f) {
        return (*(F*)f)(t, N_VGetArrayPointer(y), N_VGetArrayPointer(dy)), 0;
      };
      CVodeInit(cvode, call, 0, vector), CVodeSetUserData(cvode, &f);
      CVodeSStolerances(cvode, 1e-9, least), CVodeSetStopTime(cvode, end);
      CVodeSetLinearSolver(cvode, solver, matrix);
      double t = 0;
      int status = 0;
      for (each(t); t < end && status >= 0; each(t))
        status = CVode(cvode, end, vector, &t, 2);  // one step
      CVodeFree(&cvode), SUNLinSolFree(solver), SUNMatDestroy(matrix);
      N_VDestroy(vector), SUNContext_Free(&context);
      if (status < 0) throw std::runtime_error("CVODE did not arrive");
    }
    // Robertson's reactions: a -> b, b + c -> a + c, 2 b -> b + c.
    struct Step { double t, y[3], dy[3]; };
    struct Solution {
      template <typename Row>
      Solution(Row y, Row k, double end) : k(k.begin(), k.end()) {
        auto f = [&k](double, const double* y, double* dy) {
          dy[0] = k[1] * y[1] * y[2] - k[0] * y[0];
          dy[2] = k[2] * y[1] * y[1], dy[1] = -dy[0] - dy[2];
        };
        Step step{0, {y[0], y[1], y[2]}, {}};
        Integrate(3, step.y, end, 1e-14, f, [&](double t) {
          f(step.t = t, step.y, step.dy), steps.push_back(step);
        });
      }
      void Adjoint(double* state) const {  // towards y, then towards k
        const double end = steps.back().t;
        auto f = [&](double back, const double* l, double* dl) {
          const Step* b = &steps[1];
          while (b != &steps.back() && b->t < end - back) ++b;
          const double h = b->t - b[-1].t, s = (b->t - end + back) / h;
          auto at = [b, h, s, r = 1 - s](int i) {  // the cubic of CVODES
            return r * r * ((1 + 2 * s) * b->y[i] - s * h * b->dy[i]) +
                   s * s * ((1 + 2 * r) * b[-1].y[i] + r * h * b[-1].dy[i]);
          };
          const double p = l[1] - l[0], q = l[2] - l[1];
          dl[0] = p * k[0], dl[3] = p * at(0), dl[5] = q * at(1) * at(1);
          dl[1] = 2 * q * k[2] * at(1) - p * k[1] * at(2);
          dl[2] = -p * k[1] * at(1), dl[4] = -p * at(1) * at(2);
        };
        Integrate(6, state, end, 1e-18, f, [](double) {});
      }
      std::vector<double> k;
      std::vector<Step> steps;
    };""",
    axes="(3),(3),(3)->(3),(3)",
    results="out dk",
    dtypes="f64",
    has_reference=False,
    flags=[f"-L{FOLDER}", f"-Wl,-rpath,{FOLDER}", *map("-l:{}".format, NAMES)],
)
def robertson(y, k, ct, *, end=40.0, backward=False):
    return (jax.ShapeDtypeStruct(y.shape, y.dtype),) * 2


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def react(y, k, end):
    """The concentrations y after a time, by reactions of rates k."""
    return robertson(y, k, y, end=end)[0]


react.defvjp(
    lambda y, k, end: (react(y, k, end), (y, k)),
    lambda end, saved, ct: robertson(*saved, ct, end=end, backward=True),
)
