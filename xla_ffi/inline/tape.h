// Reverse mode: numbers that record what was assigned to them.
//
// An assignment is a statement of the tape: the numbers that stand on its
// right, and the slope towards each. Going back from the last statement to the
// first adds up, for each number, the slope of the results towards it.
//
// Source: A. Griewank, A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
// chapters 3 and 4 (statement-level preaccumulation).

#ifndef XLA_FFI_INLINE_TAPE_H_
#define XLA_FFI_INLINE_TAPE_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <type_traits>
#include <vector>

#include "xla_ffi/inline/numbers.h"

namespace kit {

// Most bytes of the tape of a thread, which has one row at a time, or those of
// a group in lanes.
inline constexpr size_t kTapeBytes = size_t{1} << 30;
inline constexpr char kTapeVariable[] = "XLA_FFI_KIT_TAPE_BYTES";
// Bytes of a tape that a thread keeps for its next call.
inline constexpr size_t kKeptBytes = size_t{1} << 26;

class TapeError : public std::exception {
 public:
  TapeError(int rows, const char* why, size_t bytes) {
    char of[32] = "one row", remedy[16] = "";
    if (rows > 1) {
      snprintf(of, sizeof(of), "%d rows in lanes", rows);
      snprintf(remedy, sizeof(remedy), "lanes=False, ");
    }
    snprintf(text_, sizeof(text_),
             "derivatives=\"kernel\": the tape of %s %s %zu bytes; take "
             "shorter rows, %sor the reference's derivative, or set %s (%zu "
             "by default)",
             of, why, bytes, remedy, kTapeVariable, kTapeBytes);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[320];
};

template <typename S>
struct Var;

// The rows that a scalar has numbers of.
template <typename S>
inline constexpr int kRowsOf = 1;

// In an id on a tape of several rows: the number is chosen in some of them. In
// the others the slope towards it is 0, and it takes nothing from there.
inline constexpr uint32_t kChoice = uint32_t{1} << 31;

// Adds what a statement's slope is towards a number, times the one from there.
template <typename S>
void AddProduct(const S& slope, const S& from, S* sum) {
  *sum += slope * from;
}

// The statements that a thread has recorded. Number 0 is every constant.
template <typename S>
class Tape {
 public:
  // The tape of this thread, which is the current one until the next call.
  static Tape& OfThread() {
    static thread_local Tape tape;
    current = &tape;
    return tape;
  }
  // A plain pointer: a thread_local object would be looked at whether it is
  // there already, for each statement.
  static __thread Tape* current;

  Tape() {
    const char* const given = std::getenv(kTapeVariable);
    if (given != nullptr) most_ = std::strtoull(given, nullptr, 10);
  }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  ~Tape() { Free(); }

  // Forgets all statements; the first `inputs` numbers are inputs.
  void Begin(size_t inputs) {
    part_ = next_ = 0;
    while (inputs + 1 > capacity_) GrowEnds();
    inputs_ = next_ = static_cast<uint32_t>(inputs + 1);
    ends_[inputs_ - 1] = 0;
  }

  // Records a number with some parts; returns its id, 0 if it has none.
  template <int kCount>
  KIT_NUMBER_INLINE uint32_t Record(const S* slopes, const uint32_t* ids) {
    if (__builtin_expect(size_ - part_ < kCount, 0)) GrowParts(kCount);
    if (__builtin_expect(next_ >= capacity_, 0)) GrowEnds();
    uint32_t part = part_;
    for (int i = 0; i < kCount; ++i) {
      slopes_[part] = slopes[i];
      ids_[part] = ids[i];
      part += ids[i] != 0;
    }
    if (part == part_) return 0;
    ends_[next_] = part_ = part;
    return next_++;
  }

  // Begins with no slope anywhere; Adjoint() then takes those of results.
  void Clear() { adjoints_.assign(next_, S()); }
  S& Adjoint(uint32_t id) { return adjoints_[id]; }

  void Sweep() {
    S* const adjoints = adjoints_.data();
    for (uint32_t i = next_ - 1; i >= inputs_; --i) {
      const S slope = adjoints[i];
      if constexpr (std::is_arithmetic_v<S>) {
        if (slope == 0) continue;
      }
      for (uint32_t k = ends_[i - 1]; k < ends_[i]; ++k) {
        S* const sum = &adjoints[ids_[k] & ~kChoice];
        if constexpr (kRowsOf<S> > 1) {
          if ((ids_[k] & kChoice) != 0) {
            AddChosen(slopes_[k], slope, sum);
            continue;
          }
        }
        AddProduct(slopes_[k], slope, sum);
      }
    }
  }

  // Gives a large tape back.
  void Trim() {
    if (Bytes(size_, capacity_) > kKeptBytes) Free();
  }

  std::vector<Var<S>> cells;  // the arrays of a row

 private:
  static constexpr size_t kPart = sizeof(S) + sizeof(uint32_t);
  static constexpr size_t kStatement = sizeof(uint32_t) + sizeof(S);

  static size_t Bytes(size_t parts, size_t statements) {
    return parts * kPart + statements * kStatement;
  }

  __attribute__((cold, noinline)) void GrowParts(uint32_t count) {
    const uint32_t size = Larger(part_, count, kPart, Bytes(0, capacity_));
    slopes_ = Resize(slopes_, part_, size);
    ids_ = Resize(ids_, part_, size);
    size_ = size;
  }
  __attribute__((cold, noinline)) void GrowEnds() {
    const uint32_t used = next_ > capacity_ ? next_ : capacity_;
    const uint32_t size = Larger(used, 1, kStatement, Bytes(size_, 0));
    ends_ = Resize(ends_, capacity_, size);
    capacity_ = size;
  }
  // Twice as many, or as many as fit beside other bytes.
  uint32_t Larger(size_t used, size_t more, size_t each, size_t beside) const {
    size_t most = most_ > beside ? (most_ - beside) / each : 0;
    if (most > kChoice - 1) most = kChoice - 1;
    if (used + more > most)
      throw TapeError(kRowsOf<S>, "needs more than", most_);
    const size_t wanted = used < 2048 ? 4096 : 2 * used;
    return static_cast<uint32_t>(wanted < most ? wanted : most);
  }
  template <typename E>
  static E* Resize(E* old, size_t used, size_t size) {
    constexpr size_t kAlign = alignof(E) > 64 ? alignof(E) : 64;
    const size_t bytes = (size * sizeof(E) + kAlign - 1) / kAlign * kAlign;
    auto* const made = static_cast<E*>(std::aligned_alloc(kAlign, bytes));
    if (made == nullptr) throw TapeError(kRowsOf<S>, "gets no", bytes);
    if (used != 0) std::memcpy(static_cast<void*>(made), old, used * sizeof(E));
    std::free(static_cast<void*>(old));
    return made;
  }
  void Free() {
    std::free(static_cast<void*>(slopes_));
    std::free(ids_);
    std::free(ends_);
    slopes_ = nullptr;
    ids_ = ends_ = nullptr;
    size_ = part_ = capacity_ = next_ = 0;
    std::vector<S>().swap(adjoints_);
    std::vector<Var<S>>().swap(cells);
  }

  size_t most_ = kTapeBytes;
  // Of each part, in two arrays: the slope may be aligned to many bytes.
  S* slopes_ = nullptr;
  uint32_t* ids_ = nullptr;
  uint32_t* ends_ = nullptr;  // of each statement, the end of its parts
  uint32_t size_ = 0, part_ = 0, capacity_ = 0, next_ = 0, inputs_ = 0;
  std::vector<S> adjoints_;
};
template <typename S>
__thread Tape<S>* Tape<S>::current;

// The right side of a statement: a value, and its slopes towards numbers.
template <typename S, int kCount>
struct Expression {
  using KitScalar = S;

  Expression() = default;
  // NOLINTBEGIN(google-explicit-constructor): branches of `?:` convert
  template <typename N, IfConstant<N> = 0>
  Expression(N constant) : v(ConstantOf<S>(constant)), slopes{}, ids{} {}
  template <int kFewer, std::enable_if_t<(kFewer < kCount), int> = 0>
  Expression(const Expression<S, kFewer>& x) : v(x.v), slopes{}, ids{} {
    for (int i = 0; i < kFewer; ++i) slopes[i] = x.slopes[i], ids[i] = x.ids[i];
  }
  // NOLINTEND(google-explicit-constructor)
  KIT_ASSIGNMENTS(Expression)

  // Not initialized: an operator writes all of them.
  S v;
  S slopes[kCount];
  uint32_t ids[kCount];
};

// A variable.
template <typename S>
struct Var {
  using KitScalar = S;

  Var() = default;
  // NOLINTBEGIN(google-explicit-constructor): constants convert implicitly
  template <typename N, IfConstant<N> = 0>
  Var(N constant) : v(ConstantOf<S>(constant)) {}
  template <typename N,
            std::enable_if_t<std::is_same_v<N, S> && kIsNumber<N>, int> = 0>
  Var(const N& scalar) : v(scalar) {}
  template <int kCount>
  KIT_NUMBER_INLINE Var(const Expression<S, kCount>& x)
      : v(x.v),
        id(Tape<S>::current->template Record<kCount>(x.slopes, x.ids)) {}
  // NOLINTEND(google-explicit-constructor)
  KIT_ASSIGNMENTS(Var)

  S v = S();
  uint32_t id = 0;
};

// The most slopes of a statement; a longer one becomes several.
inline constexpr int kMostSlopes = 12;
template <typename S>
constexpr int CountOf(const Var<S>*) {
  return 1;
}
template <typename S, int kCount>
constexpr int CountOf(const Expression<S, kCount>*) {
  return kCount;
}

// Writes the slopes towards the numbers in x, from `at` on.
template <typename S, int kCount>
KIT_NUMBER_INLINE void Append(Expression<S, kCount>& y, int at, const Var<S>& x,
                              const S& slope) {
  y.slopes[at] = slope;
  y.ids[at] = x.id;
}
template <typename S, int kCount, int kOfX>
KIT_NUMBER_INLINE void Append(Expression<S, kCount>& y, int at,
                              const Expression<S, kOfX>& x, const S& slope) {
  for (int i = 0; i < kOfX; ++i) {
    y.slopes[at + i] = slope * x.slopes[i];
    y.ids[at + i] = x.ids[i];
  }
}

template <typename S, typename X,
          int kCount = CountOf(static_cast<const X*>(nullptr))>
KIT_NUMBER_INLINE Expression<S, kCount> Chain(const S& v, const X& x,
                                              const S& slope) {
  Expression<S, kCount> y;
  y.v = v;
  Append(y, 0, x, slope);
  return y;
}
template <typename S, typename A, typename B,
          int kOfA = CountOf(static_cast<const A*>(nullptr)),
          int kOfB = CountOf(static_cast<const B*>(nullptr))>
KIT_NUMBER_INLINE auto Chain(const S& v, const A& a, const S& slope_a,
                             const B& b, const S& slope_b) {
  if constexpr (kOfA + kOfB > kMostSlopes) {
    const Var<S> of_a(a), of_b(b);
    return Chain(v, of_a, slope_a, of_b, slope_b);
  } else {
    Expression<S, kOfA + kOfB> y;
    y.v = v;
    Append(y, 0, a, slope_a);
    Append(y, kOfA, b, slope_b);
    return y;
  }
}

template <typename S>
struct HolderOf<Var<S>> {
  using type = Var<S>;
};
template <typename S, int kCount>
struct HolderOf<Expression<S, kCount>> {
  using type = Var<S>;
};
template <typename S>
Var<S> max(const Var<S>& x, const Var<S>& y) {
  return MaxOf(x, y);
}
template <typename S>
Var<S> min(const Var<S>& x, const Var<S>& y) {
  return MinOf(x, y);
}
template <typename S, int kCount>
Var<S> max(const Expression<S, kCount>& x, const Expression<S, kCount>& y) {
  return MaxOf(x, y);
}
template <typename S, int kCount>
Var<S> min(const Expression<S, kCount>& x, const Expression<S, kCount>& y) {
  return MinOf(x, y);
}

}  // namespace kit

namespace std {
using kit::max;  // those above, too
using kit::min;
template <typename S>
struct numeric_limits<kit::Var<S>> : numeric_limits<kit::Plain<S>> {};
}  // namespace std

#endif  // XLA_FFI_INLINE_TAPE_H_
