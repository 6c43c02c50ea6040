// The derivatives of a function of rows: f(const Row<const T>* in, const
// Row<T>* out), as those of elements in derived_elements.h.
//
// differentiate.h runs both for all elements and rows of a call.

#ifndef XLA_FFI_STRINGS_DERIVE_DERIVED_H_
#define XLA_FFI_STRINGS_DERIVE_DERIVED_H_

#include <cstdint>

#include "xla_ffi/strings/derive/derived_elements.h"
#include "xla_ffi/strings/derive/jet.h"
#include "xla_ffi/strings/derive/tape.h"
#include "xla_ffi/strings/derive/var.h"
#include "xla_ffi/strings/rows.h"

namespace kit {

// The rows of one call of F in numbers of another type, which `cells` holds.
template <typename F, typename Number>
struct Call {
  template <typename In, typename Out>
  Call(Cells<Number>& cells, const Row<In>* ins, const Row<Out>* outs) {
    int64_t total = 0;
    for (int i = 0; i < F::kIns; ++i) total += ins[i].size();
    for (int k = 0; k < F::kOuts; ++k) total += outs[k].size();
    Number* next = cells.Assign(total);
    for (int i = 0; i < F::kIns; next += ins[i++].size()) {
      in[i] = Row<Number>(next, ins[i].size());
    }
    for (int k = 0; k < F::kOuts; next += outs[k++].size()) {
      out[k] = Row<Number>(next, outs[k].size());
    }
  }

  void Run(const F& f) const {
    Row<const Number> x[F::kIns];
    for (int i = 0; i < F::kIns; ++i) {
      x[i] = Row<const Number>(in[i].data(), in[i].size());
    }
    f(static_cast<const Row<const Number>*>(x), out);
  }

  Row<Number> in[F::kIns], out[F::kOuts];
};

// An operand in the memory of a result, which then begins as the operand.
template <typename T>
Row<const T> InPlace(const Row<const T>& x, const Row<T>& out) {
  for (int64_t j = 0; j < x.size(); ++j) out[j] = x[j];
  return {out.data(), out.size()};
}

// Rows of duals of a thread: two of the same type.
template <typename T, int kCount = 1>
Cells<Dual<T, kCount>>& DualsOfThread(int which = 0) {
  static thread_local Cells<Dual<T, kCount>> cells[2];
  return cells[which];
}

// Gives the rows x values, and the active ones tangents too.
template <uint64_t kActive, int kCount, typename T>
void Fill(const Row<Dual<T, 1>>* x, const Row<const T>* values,
          const Row<const T>* tangents) {
  for (int i = 0; i < kCount; ++i) {
    for (int64_t j = 0; j < x[i].size(); ++j) {
      x[i][j].v = values[i][j];
      if (Has(kActive, i)) x[i][j].d[0] = tangents[Before(kActive, i)][j];
    }
  }
}

template <typename F, uint64_t kActive>
struct RowJvp {
  static constexpr int kIns = F::kIns + Count(kActive), kOuts = F::kOuts;
  F f;

  template <typename T>
  void operator()(const Row<const T>* in, const Row<T>* out) const {
    const Call<F, Dual<T, 1>> call(DualsOfThread<T>(), in, out);
    Fill<kActive, F::kIns>(call.in, in, in + F::kIns);
    call.Run(f);
    for (int k = 0; k < kOuts; ++k) {
      for (int64_t j = 0; j < out[k].size(); ++j)
        out[k][j] = call.out[k][j].d[0];
    }
  }
};

// The results, and then for each of them its Jacobian towards each active x,
// which have kCount numbers together: all slopes in one pass.
template <typename F, uint64_t kActive, int kCount>
struct RowJacobian {
  static constexpr int kIns = F::kIns, kOuts = F::kOuts * (1 + Count(kActive));
  F f;

  template <typename T>
  void operator()(const Row<const T>* in, const Row<T>* out) const {
    const Call<F, Dual<T, kCount>> call(DualsOfThread<T, kCount>(), in, out);
    int slot = 0;
    for (int i = 0; i < F::kIns; ++i) {
      for (int64_t j = 0; j < in[i].size(); ++j) {
        call.in[i][j].v = in[i][j];
        if (Has(kActive, i)) call.in[i][j].d[slot++] = T(1);
      }
    }
    call.Run(f);
    const Row<T>* block = out + F::kOuts;
    for (int k = 0; k < F::kOuts; ++k) {
      slot = 0;
      for (int i = 0; i < F::kIns; ++i) {
        if (!Has(kActive, i)) continue;
        const int64_t size = in[i].size();
        for (int64_t j = 0; j < out[k].size(); ++j) {
          const auto& y = call.out[k][j];
          out[k][j] = y.v;
          for (int64_t s = 0; s < size; ++s) {
            (*block)[j * size + s] = y.d[slot + s];
          }
        }
        slot += static_cast<int>(size);
        ++block;
      }
    }
  }
};

// The call of F at x, of which the tape has all statements.
template <uint64_t kActive, typename T, typename F>
Call<F, Var<T>> Recorded(const F& f, const Row<const T>* x,
                         const Row<const T>* outs, Tape<T>& tape) {
  for (;;) {
    const Call<F, Var<T>> call(tape.cells, x, outs);
    uint32_t inputs = 0;
    for (int i = 0; i < F::kIns; ++i) {
      for (int64_t j = 0; j < x[i].size(); ++j) {
        call.in[i][j].v = x[i][j];
        if (Has(kActive, i)) call.in[i][j].id = ++inputs;
      }
    }
    tape.Begin(inputs);
    const bool are_loops = tape.steps.AreLoops();
    try {
      call.Run(f);
    } catch (const Steps::Again&) {
    }
    if (!tape.IsWhole()) {
      // From the ids of a tape that is too short nothing follows.
      tape.steps.SetLoops(are_loops);
    } else if (!tape.steps.HaveFailed()) {
      return call;
    }
  }
}

// Whether no slope of the active x is infinite or NaN.
template <typename T>
bool AreFinite(const Row<T>* slopes, int count) {
  int others = 0;  // a sum, which compilers vectorize
  for (int i = 0; i < count; ++i) {
    for (const T slope : slopes[i]) others += slope - slope == T(0) ? 0 : 1;
  }
  return others == 0;
}

// Computes F at x, and the cotangents of active x from those of the results;
// and with `values` the results.
template <uint64_t kActive, typename T, typename F>
void PullBack(const F& f, const Row<const T>* x, const Row<const T>* cotangents,
              const Row<T>* slopes, const Row<T>* values = nullptr) {
  Tape<T>& tape = Tape<T>::OfThread();
  for (const bool are_loops : {false, true}) {
    tape.steps.SetLoops(are_loops);
    const Call<F, Var<T>> call = Recorded<kActive>(f, x, cotangents, tape);
    for (int k = 0; k < F::kOuts; ++k) {
      for (int64_t j = 0; j < cotangents[k].size(); ++j) {
        const Var<T>& y = call.out[k][j];
        if (y.id != 0) tape.AddSlope(y.id, cotangents[k][j]);
        if (values != nullptr) values[k][j] = y.v;
      }
    }
    tape.Sweep();
    uint32_t id = 0;
    for (int i = 0; i < F::kIns; ++i) {
      if (!Has(kActive, i)) continue;
      const Row<T>& slope = slopes[Before(kActive, i)];
      for (int64_t j = 0; j < slope.size(); ++j) slope[j] = tape.SlopeAt(++id);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (tape.steps.AreUsed() && !AreFinite(slopes, Count(kActive))) continue;
    }
    return;
  }
}

template <typename F, uint64_t kActive>
struct RowVjp {
  static constexpr int kIns = F::kIns + F::kOuts, kOuts = Count(kActive);
  F f;

  template <typename T>
  void operator()(const Row<const T>* in, const Row<T>* out) const {
    PullBack<kActive>(f, in, in + F::kIns, out);
  }
};

// The result, one number, and its slopes towards the active x.
template <typename F, uint64_t kActive>
struct RowGradient {
  static constexpr int kIns = F::kIns, kOuts = F::kOuts + Count(kActive);
  F f;

  template <typename T>
  void operator()(const Row<const T>* in, const Row<T>* out) const {
    const T one(1);
    const Row<const T> of_result(&one, 1);
    PullBack<kActive>(f, in, &of_result, out + F::kOuts, out);
  }
};

// The second derivatives that end backwards are one pass of duals on a tape. Of
// L = sum(cotangents * F(x)) it has the slopes towards x and the results, and
// how both change with x along tangents.
template <typename F, uint64_t kActive, uint64_t kTangents, typename T,
          typename Use>
void PullBackDual(const F& f, const Row<const T>* x,
                  const Row<const T>* tangents, const Row<const T>* cotangents,
                  const Use& use) {
  using Number = Dual<T, 1>;
  const Call<F, Number> call(DualsOfThread<T>(0), x, cotangents);
  Fill<kTangents, F::kIns>(call.in, x, tangents);
  Fill<0, F::kOuts>(call.out, cotangents, cotangents);
  Row<const Number> in[F::kIns], along[F::kOuts];
  for (int i = 0; i < F::kIns; ++i) in[i] = {call.in[i].data(), x[i].size()};
  for (int k = 0; k < F::kOuts; ++k) {
    along[k] = {call.out[k].data(), call.out[k].size()};
  }
  const Call<F, Number> slopes(DualsOfThread<T>(1), x, cotangents);
  Row<Number> active[F::kIns];
  for (int i = 0; i < F::kIns; ++i) {
    if (Has(kActive, i)) active[Before(kActive, i)] = slopes.in[i];
  }
  PullBack<kActive>(f, static_cast<const Row<const Number>*>(in),
                    static_cast<const Row<const Number>*>(along),
                    static_cast<const Row<Number>*>(active), slopes.out);
  use(slopes);
}

// Of Vjp(x, cotangents): towards x, the Hessian of L times the cotangents of
// the slopes, which is symmetric; towards the cotangents, the results'
// tangents.
template <typename F, uint64_t kInner, uint64_t kActive>
struct RowVjp<RowVjp<F, kInner>, kActive> {
  using Inner = RowVjp<F, kInner>;
  static constexpr int kIns = Inner::kIns + Inner::kOuts;
  static constexpr int kOuts = Count(kActive);
  static constexpr uint64_t kOfX = kActive & ((uint64_t{1} << F::kIns) - 1);
  Inner f;

  template <typename T>
  void operator()(const Row<const T>* in, const Row<T>* out) const {
    PullBackDual<F, kOfX, kInner>(
        f.f, in, in + Inner::kIns, in + F::kIns, [&](const auto& slopes) {
          for (int i = 0; i < Inner::kIns; ++i) {
            if (!Has(kActive, i)) continue;
            const Row<T>& to = out[Before(kActive, i)];
            const auto& from =
                i < F::kIns ? slopes.in[i] : slopes.out[i - F::kIns];
            for (int64_t j = 0; j < to.size(); ++j) to[j] = from[j].d[0];
          }
        });
  }
};

// Of Jvp(x, tangents): towards x, the Hessian of L times the tangents; towards
// the tangents, the slopes of L.
template <typename F, uint64_t kInner, uint64_t kActive>
struct RowVjp<RowJvp<F, kInner>, kActive> {
  using Inner = RowJvp<F, kInner>;
  static constexpr int kIns = Inner::kIns + Inner::kOuts;
  static constexpr int kOuts = Count(kActive);
  Inner f;

  template <typename T>
  void operator()(const Row<const T>* in, const Row<T>* out) const {
    // Towards which x slopes are needed, for themselves or for their tangents.
    constexpr uint64_t kOfX = [] {
      uint64_t bits = 0;
      for (int i = 0; i < F::kIns; ++i) {
        const bool is_asked =
            Has(kActive, i) ||
            (Has(kInner, i) && Has(kActive, F::kIns + Before(kInner, i)));
        bits |= uint64_t{is_asked} << i;
      }
      return bits;
    }();
    PullBackDual<F, kOfX, kInner>(
        f.f, in, in + F::kIns, in + Inner::kIns, [&](const auto& slopes) {
          for (int i = 0; i < F::kIns; ++i) {
            const int of_tangent = F::kIns + Before(kInner, i);
            for (int64_t j = 0; j < in[i].size(); ++j) {
              const auto& slope = slopes.in[i][j];
              if (Has(kActive, i)) out[Before(kActive, i)][j] = slope.d[0];
              if (Has(kInner, i) && Has(kActive, of_tangent)) {
                out[Before(kActive, of_tangent)][j] = slope.v;
              }
            }
          }
        });
  }
};

}  // namespace kit

#endif  // XLA_FFI_STRINGS_DERIVE_DERIVED_H_
