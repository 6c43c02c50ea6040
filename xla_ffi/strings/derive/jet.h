// Reverse mode of kit::scan: the numbers of its steps, which have their slopes
// towards what the step began with in a register.
//
// A step has slots: first those of the states, and then one for each number of
// the tape that it reads. A jet is a value and its slopes towards all slots.
// At the end of a step the slopes of its states are written behind each other,
// its Jacobian; a jet that is assigned to a number of the tape is a row more.
// Going back is a product with them. What slots do not suffice for is computed
// again on the tape, and so is a row of which some slope is not finite: the
// product of an infinite slope and a 0 of another slot says nothing.
//
// Source: A. Griewank, A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
// chapters 3.2 (vector forward mode) and 10.2 (preaccumulation).

#ifndef XLA_FFI_STRINGS_DERIVE_JET_H_
#define XLA_FFI_STRINGS_DERIVE_JET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "xla_ffi/strings/derive/numbers.h"
#include "xla_ffi/strings/derive/tape.h"
#include "xla_ffi/strings/derive/var.h"
#include "xla_ffi/strings/for_each.h"
#include "xla_ffi/strings/scan.h"

namespace kit {

// The slots of a step: of one with few states eight, and twice as many if it
// was seen to read more than that.
inline constexpr int kSlots = 8, kMostSlots = 16;
inline constexpr int kFewStates = 6, kMostStates = 12;

// A slope towards each slot, in vectors of the compiler.
template <typename S, int kCount>
struct JetSlopes {
  static constexpr int kBytes = int{sizeof(S)} * kCount;
  static constexpr int kOfPart = kBytes < kVectorBytes ? kBytes : kVectorBytes;
  static constexpr int kParts = kBytes / kOfPart;
  typedef S Vector __attribute__((vector_size(kOfPart)));
  typedef S Stored __attribute__((vector_size(kOfPart), aligned(alignof(S))));

  KIT_NUMBER_INLINE static JetSlopes Zero() {
    JetSlopes y;
    for (int p = 0; p < kParts; ++p) y.part[p] = Vector{};
    return y;
  }
  // 1 towards one slot.
  KIT_NUMBER_INLINE static JetSlopes Unit(int slot) {
    struct Ones {
      S of[2 * kCount] = {};
      constexpr Ones() { of[kCount] = 1; }
    };
    static constexpr Ones ones;
    return *reinterpret_cast<const JetSlopes*>(ones.of + kCount - slot);
  }
  KIT_NUMBER_INLINE S At(int slot) const {
    return part[slot / (kCount / kParts)][slot % (kCount / kParts)];
  }
  KIT_NUMBER_INLINE JetSlopes Times(S factor) const {
    JetSlopes y;
    for (int p = 0; p < kParts; ++p) y.part[p] = factor * part[p];
    return y;
  }
  // a * slopes + b * others: in one expression, which compilers fuse.
  KIT_NUMBER_INLINE JetSlopes TimesPlus(S a, S b,
                                        const JetSlopes& others) const {
    JetSlopes y;
    for (int p = 0; p < kParts; ++p) {
      y.part[p] = a * part[p] + b * others.part[p];
    }
    return y;
  }
  KIT_NUMBER_INLINE void AddTimes(S factor, const JetSlopes& x) {
    for (int p = 0; p < kParts; ++p) part[p] += factor * x.part[p];
  }
  // As slopes of another type.
  template <typename W>
  KIT_NUMBER_INLINE JetSlopes<W, kCount> As() const {
    if constexpr (std::is_same_v<W, S>) {
      return *this;
    } else {
      W of[kCount];
      for (int i = 0; i < kCount; ++i) of[i] = static_cast<W>(At(i));
      return *reinterpret_cast<const JetSlopes<W, kCount>*>(of);
    }
  }

  Stored part[kParts];
};

// Whether X is on the tape of a row, so that a step reads it.
template <typename X, int kCount = kSlopesOf<X>>
inline constexpr bool kIsRead = std::is_floating_point_v<OnTapeOf<X>>;
template <typename X>
inline constexpr bool kIsRead<X, 0> = false;
template <typename X>
using IfRead = std::enable_if_t<kIsRead<X>, int>;

// The slopes of what a step reads.
template <int kCount, typename S, typename OnTape>
KIT_NUMBER_INLINE JetSlopes<S, kCount> SlopesOfId(uint32_t id) {
  if (id == 0) return JetSlopes<S, kCount>::Zero();
  return JetSlopes<S, kCount>::Unit(Tape<OnTape>::current->steps.SlotOf(id));
}
template <int kCount, typename S>
KIT_NUMBER_INLINE JetSlopes<S, kCount> SlopesOfRead(const Var<S>& x) {
  return SlopesOfId<kCount, S, S>(x.id);
}
template <int kCount, typename S, int kOfX, typename OnTape, int... i>
KIT_NUMBER_INLINE JetSlopes<S, kCount> SlopesOfReads(
    const Expression<S, kOfX, OnTape>& x, for_each_internal::Indices<i...>) {
  auto y = JetSlopes<S, kCount>::Zero();
  (y.AddTimes(x.slopes[i], SlopesOfId<kCount, S, OnTape>(x.ids[i])), ...);
  return y;
}
template <int kCount, typename S, int kOfX, typename OnTape>
KIT_NUMBER_INLINE JetSlopes<S, kCount> SlopesOfRead(
    const Expression<S, kOfX, OnTape>& x) {
  return SlopesOfReads<kCount>(x, for_each_internal::IndicesBelow<kOfX>());
}

template <typename S, int kCount>
struct Jet {
  using KitScalar = S;
  using SlopesOfJet = JetSlopes<S, kCount>;

  Jet() = default;
  Jet(const Jet&) = default;
  Jet& operator=(const Jet&) = default;
  KIT_NUMBER_INLINE Jet(const S& value, const SlopesOfJet& slopes)
      : v(value), d(slopes) {}
  // NOLINTBEGIN(google-explicit-constructor): constants convert implicitly
  template <typename N, IfConstant<N> = 0>
  KIT_NUMBER_INLINE Jet(N constant) : v(ConstantOf<S>(constant)) {}
  template <typename X, IfRead<X> = 0>
  KIT_NUMBER_INLINE Jet(const X& x)
      : v(ScalarAs<S>(x.v)), d(SlopesOfRead<kCount>(x).template As<S>()) {}
  template <typename W, IfOther<W, S> = 0, IfRounds<W> = 0>
  KIT_NUMBER_INLINE Jet(const Jet<W, kCount>& x)
      : v(ScalarAs<S>(x.v)), d(x.d.template As<S>()) {}
  // NOLINTEND(google-explicit-constructor)
  template <typename W, IfOther<W, S> = 0, IfWidens<W> = 0>
  KIT_NUMBER_INLINE explicit Jet(const Jet<W, kCount>& x)
      : v(ScalarAs<S>(x.v)), d(x.d.template As<S>()) {}
  KIT_NUMBER_CLASS(Jet)

  S v = S();
  SlopesOfJet d = SlopesOfJet::Zero();
};

template <Slopes kSlopes, typename S, typename Of, int kCount>
KIT_NUMBER_INLINE Jet<S, kCount> Chain(const S& v, const Jet<Of, kCount>& x,
                                       const S& slope) {
  return {v, x.d.template As<S>().Times(slope)};
}
template <Slopes kSlopes, typename S, typename OfA, typename OfB, int kCount>
KIT_NUMBER_INLINE Jet<S, kCount> Chain(const S& v, const Jet<OfA, kCount>& a,
                                       const S& slope_a,
                                       const Jet<OfB, kCount>& b,
                                       const S& slope_b) {
  return {v, a.d.template As<S>().TimesPlus(slope_a, slope_b,
                                            b.d.template As<S>())};
}
template <Slopes kSlopes, typename S, typename Of, int kCount, typename X,
          IfRead<X> = 0>
KIT_NUMBER_INLINE Jet<S, kCount> Chain(const S& v, const Jet<Of, kCount>& a,
                                       const S& slope_a, const X& b,
                                       const S& slope_b) {
  const Jet<typename X::KitScalar, kCount> of_b(b);
  return Chain<kSlopes>(v, a, slope_a, of_b, slope_b);
}
template <Slopes kSlopes, typename S, typename Of, int kCount, typename X,
          IfRead<X> = 0>
KIT_NUMBER_INLINE Jet<S, kCount> Chain(const S& v, const X& a, const S& slope_a,
                                       const Jet<Of, kCount>& b,
                                       const S& slope_b) {
  const Jet<typename X::KitScalar, kCount> of_a(a);
  return Chain<kSlopes>(v, of_a, slope_a, b, slope_b);
}

template <typename Of, int kCount, typename X, typename Y, typename S>
struct HolderFor<Jet<Of, kCount>, X, Y, S> {
  using type = Jet<S, kCount>;
};
template <typename Of, typename X, typename OfY, int kCount, typename S>
struct HolderFor<Var<Of>, X, Jet<OfY, kCount>, S> {
  using type = Jet<S, kCount>;
};
template <typename Of, int kOfX, typename OnTape, typename X, typename OfY,
          int kCount, typename S>
struct HolderFor<Expression<Of, kOfX, OnTape>, X, Jet<OfY, kCount>, S> {
  using type = Jet<S, kCount>;
};

// A jet becomes a number of the tape; returns its id.
template <typename S, typename W, int kCount>
KIT_NUMBER_INLINE uint32_t RecordJet(Tape<S>& tape, const Jet<W, kCount>& x) {
  using OfSlots = JetSlopes<S, kCount>;
  *tape.steps.template Push<OfSlots>() = x.d.template As<S>();
  return tape.Mark(0);
}

// Goes back over the steps of a scan with so many states, from its end on. A
// jet's entry begins where it is; that of a step behind it, the first one's
// two entries.
template <typename S, int kStates, int kCount>
size_t SweepSteps(Tape<S>& tape, size_t end) {
  using OfSlots = JetSlopes<S, kCount>;
  // The slopes of the results towards the slots of a step.
  OfSlots sums = OfSlots::Zero();
  for (;;) {
    const size_t own = end - 1, begin = end = tape.BeginOf(own);
    if (begin < own) {
      const S slope = tape.SlopeAt(own);
      if (slope != 0) tape.SweepStatement(begin, own, slope);
      continue;
    }
    end = own;
    if (begin == own) {
      sums.AddTimes(tape.SlopeAt(own), *tape.steps.template Pop<OfSlots>());
      continue;
    }
    const auto* const reads = reinterpret_cast<const uint32_t*>(
        tape.steps.template Pop<char>(Steps::BytesOfReads(kCount - kStates)));
    S of_slot[kCount];
    *reinterpret_cast<OfSlots*>(of_slot) = sums;
    for (uint32_t i = 0; i < reads[0]; ++i) {
      tape.AddSlope(reads[i + 1], of_slot[kStates + i]);
    }
    if (begin > own + 1) {
      const auto* const ids = tape.steps.template Pop<uint64_t>(kStates);
      for (int i = 0; i < kStates; ++i) tape.AddSlope(ids[i], of_slot[i]);
      return end;
    }
    const auto* const rows = tape.steps.template Pop<OfSlots>(kStates);
    // Two sums, as each product waits for the one before it in its sum.
    sums = rows[0].Times(of_slot[0]);
    if constexpr (kStates > 1) {
      OfSlots odd = rows[1].Times(of_slot[1]);
      for (int i = 2; i < kStates; ++i) {
        (i % 2 == 1 ? odd : sums).AddTimes(of_slot[i], rows[i]);
      }
      sums.AddTimes(1, odd);
    }
  }
}

namespace scan_internal {

// How many numbers of the tape of S a variable has, and the same one of jets.
template <typename X, typename S>
inline constexpr int kVars = 0;
template <typename S>
inline constexpr int kVars<Var<S>, S> = std::is_floating_point_v<S> ? 1 : 0;
template <typename X, size_t kSize, typename S>
inline constexpr int kVars<X[kSize], S> = int{kSize} * kVars<X, S>;
template <template <typename, size_t> class Array, typename X, size_t kSize,
          typename S>
inline constexpr int kVars<Array<X, kSize>, S> = int{kSize} * kVars<X, S>;

template <typename X, int kCount>
struct OfJets;
template <typename S, int kCount>
struct OfJets<Var<S>, kCount> {
  using type = Jet<S, kCount>;
};
template <typename X, size_t kSize, int kCount>
struct OfJets<X[kSize], kCount> {
  using type = typename OfJets<X, kCount>::type[kSize];
};
template <template <typename, size_t> class Array, typename X, size_t kSize,
          int kCount>
struct OfJets<Array<X, kSize>, kCount> {
  using type = Array<typename OfJets<X, kCount>::type, kSize>;
};

// A variable's copy of jets, or of another type.
template <typename X, typename S, int kCount, bool kHasJets>
class HeldJets {
 public:
  explicit HeldJets(X& of) : of_(of) {}
  // Calls use(number, jet) for each.
  template <typename Use>
  KIT_NUMBER_INLINE void Each(const Use& use) {
    Visit(of_, at, use);
  }
  void Write() {}

  typename OfJets<X, kCount>::type at;

 private:
  template <typename Use>
  KIT_NUMBER_INLINE static void Visit(Var<S>& of, Jet<S, kCount>& jet,
                                      const Use& use) {
    use(of, jet);
  }
  template <typename Of, typename Jets, typename Use>
  KIT_NUMBER_INLINE static void Visit(Of& of, Jets& jets, const Use& use) {
    using Element = std::remove_reference_t<decltype(of[0])>;
    constexpr int kSize = kVars<Of, S> / kVars<Element, S>;
    for (int i = 0; i < kSize; ++i) Visit(of[i], jets[i], use);
  }

  X& of_;
};
template <typename X, typename S, int kCount>
class HeldJets<X, S, kCount, false> : public Held<X> {
 public:
  using Held<X>::Held;
  template <typename Use>
  void Each(const Use&) {}
};

template <typename S, typename... States>
struct JetRunner {
  static constexpr int kStates = (kVars<States, S> + ...);

  template <typename Step>
  static void Run(int64_t n, Step& step, States&... states) {
    static std::atomic<bool> is_wide = kStates > kFewStates;
    if (n <= 0) return;
    if (Tape<S>::current->steps.AreLoops()) {
      Runner<Tape<S>, States...>::Run(n, step, states...);
    } else if (is_wide.load(std::memory_order_relaxed)) {
      RunJets<kMostSlots>(n, step, nullptr, states...);
    } else if constexpr (kStates <= kFewStates) {
      RunJets<kSlots>(n, step, &is_wide, states...);
    }
  }

 private:
  // All that a step calls becomes part of this function, so that the compiler
  // keeps jets in registers.
  template <int kCount, typename Step>
  KIT_FLATTEN static void RunJets(int64_t n, Step& step,
                                  std::atomic<bool>* is_wide,
                                  States&... states) {
    RunHeld<kCount>(
        n, step, *Tape<S>::current, is_wide,
        HeldJets<States, S, kCount, (kVars<States, S> > 0)>(states)...);
  }

  template <int kCount, typename Step, typename... H>
  KIT_NUMBER_INLINE static void RunHeld(int64_t n, Step& step, Tape<S>& tape,
                                        std::atomic<bool>* is_wide,
                                        H&&... held) {
    constexpr int kReads = kCount - kStates;
    using OfSlots = JetSlopes<S, kCount>;
    Steps& steps = tape.steps;
    tape.BeginScan(kStates, kReads, is_wide, n,
                   Steps::BytesOfReads(kReads) + kStates * sizeof(OfSlots),
                   sizeof(OfSlots));
    (held.Each([&](Var<S>& of, auto& jet) {
      jet.v = of.v;
      *steps.Push<uint64_t>() = of.id;
    }),
     ...);
    tape.Mark(2);
    for (int64_t i = 0;;) {
      steps.BeginStep(tape.size(), kReads);
      int slot = 0;
      (held.Each([&](Var<S>&, auto& jet) { jet.d = OfSlots::Unit(slot++); }),
       ...);
      step(i, held.at...);
      if (++i == n) break;
      OfSlots* row = steps.Push<OfSlots>(kStates);
      (held.Each([&](Var<S>&, auto& jet) { *row++ = jet.d; }), ...);
      tape.Mark(1);
    }
    (held.Each([](Var<S>& of, auto& jet) { of = jet; }), ...);
    (held.Write(), ...);
    *steps.Push<typename Tape<S>::SweepFrom>() =
        &SweepSteps<S, kStates, kCount>;
    tape.Mark(0, S(1));
    steps.EndScan();
  }
};

template <typename... States>
struct Runner<std::enable_if_t<((kVars<States, float> + ...) > 0 &&
                                (kVars<States, float> + ...) <= kMostStates)>,
              States...> : JetRunner<float, States...> {};
template <typename... States>
struct Runner<std::enable_if_t<((kVars<States, double> + ...) > 0 &&
                                (kVars<States, double> + ...) <= kMostStates)>,
              States...> : JetRunner<double, States...> {};

}  // namespace scan_internal
}  // namespace kit

namespace std {
template <typename S, int kCount>
struct numeric_limits<kit::Jet<S, kCount>> : numeric_limits<kit::Plain<S>> {};
}  // namespace std

#endif  // XLA_FFI_STRINGS_DERIVE_JET_H_
