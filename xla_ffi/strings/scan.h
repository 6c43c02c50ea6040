// kit::scan: a loop with a state, whose derivative costs little more than its
// value.
//
//   A u = 1, w = 0;
//   kit::scan(x.size(), u, w, [&]<typename A>(int64_t i, A& u, A& w) {
//     w += 0.1f * (x[i] - u);
//     out[i] = u += 0.1f * w;
//   });
//
// It calls the step for 0 to n - 1, with copies of the variables, which get
// back what the copies are in the end. In reverse mode the numbers of a step
// are of a type of their own, which is why the step is a template:
// derive/jet.h. Everywhere else it is the loop that one would write.

#ifndef XLA_FFI_STRINGS_SCAN_H_
#define XLA_FFI_STRINGS_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/strings/for_each.h"

#ifdef __CUDACC_RTC__
#define KIT_FLATTEN
#else
#define KIT_FLATTEN __attribute__((flatten))
#endif

namespace kit {
namespace scan_internal {

// A variable's copy, for as long as the steps run.
template <typename X>
class Held {
 public:
  explicit Held(X& of) : at(of), of_(of) {}
  void Write() { of_ = static_cast<X&&>(at); }

  X at;

 private:
  X& of_;
};
template <typename X, size_t kCount>
class Held<X[kCount]> {
 public:
  explicit Held(X (&of)[kCount]) : of_(of) { Copy(of, at); }
  void Write() { Copy(at, of_); }

  X at[kCount];

 private:
  template <typename Y>
  static void Copy(Y& from, Y& to) {
    to = from;
  }
  template <typename Y, size_t kSize>
  static void Copy(Y (&from)[kSize], Y (&to)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) Copy(from[i], to[i]);
  }

  X (&of_)[kCount];
};

// Runs the steps of a scan with such variables; jet.h has another way for its
// own.
template <typename Enabled, typename... States>
struct Runner {
  // All that a step calls becomes part of this function, as in a loop.
  template <typename Step>
  KIT_FLATTEN static void Run(int64_t n, Step& step, States&... states) {
    RunHeld(n, step, Held<States>(states)...);
  }

 private:
  template <typename Step, typename... H>
  static void RunHeld(int64_t n, Step& step, H&&... held) {
    for (int64_t i = 0; i < n; ++i) step(i, held.at...);
    (held.Write(), ...);
  }
};

// Whether the step has parameters of fixed types.
template <typename Step>
char TestFixed(decltype(&Step::operator()));
template <typename Step>
long TestFixed(...);  // NOLINT(runtime/int): another size than char

template <int... i, typename... Arguments>
void Scan(int64_t n, for_each_internal::Indices<i...>,
          Arguments&... arguments) {
  auto& step = for_each_internal::Get<sizeof...(i)>(arguments...);
  using Step = std::remove_reference_t<decltype(step)>;
  static_assert(sizeof(TestFixed<Step>(nullptr)) > 1,
                "kit::scan: the step is a template, as a derivative calls it "
                "with numbers of a type of its own: write "
                "[&]<typename A>(int64_t i, A& state) or "
                "[&](int64_t i, auto& state)");
  Runner<void, std::remove_reference_t<decltype(for_each_internal::Get<i>(
                   arguments...))>...>::Run(n, step,
                                            for_each_internal::Get<i>(
                                                arguments...)...);
}

}  // namespace scan_internal

// Calls step(i, variables...) for i from 0 to n - 1.
template <typename... Arguments>
void scan(int64_t n, Arguments&&... arguments) {
  static_assert(sizeof...(Arguments) > 1,
                "kit::scan(n, variables..., step), with at least one variable");
  scan_internal::Scan(
      n, for_each_internal::IndicesBelow<sizeof...(Arguments) - 1>(),
      arguments...);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_SCAN_H_
