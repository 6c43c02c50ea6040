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

// The rows that a scalar has numbers of, and the scalar of one of them.
template <typename S>
inline constexpr int kRowsOf = 1;
template <typename S>
struct RowOfScalar {
  using type = S;
};

// In an id on a tape of several rows: the number is chosen in some of them. In
// the others the slope towards it is 0, and it takes nothing from there.
inline constexpr uint32_t kChoice = uint32_t{1} << 31;

// Adds what a statement's slope is towards a number, times the one from there.
template <typename S>
void AddProduct(const S& slope, const S& from, S* sum) {
  *sum += slope * from;
}
// The same towards a choice.
template <typename S>
void AddChosen(const S& part, const S& from, S* sum) {
  if (!(part == 0)) *sum += part * from;
}
// The slope of one row, or that of all.
template <typename N, typename S>
N SlopeAs(const S& slope) {
  return slope;
}

// The statements that a thread has recorded, one after the other: an entry for
// each number on the right, with its slope and its id, and then one that is the
// statement's own, with the slope of the results towards it, which the sweep
// adds up, and where it begins. The place of the latter is its id. Entry 0 is
// every constant, and those behind it are the inputs.
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

  // Whether there is one row in the scalars; the tape is then as short as its.
  void SetOneRow(bool is_one_row) { is_one_row_ = is_one_row; }

  // Forgets all statements; the first `inputs` numbers are inputs.
  void Begin(size_t inputs) {
    inputs_ = inputs + 1;
    if (inputs_ + needed_ > size_ || BytesOfSlope() > slope_bytes_) Resize();
    lost_ = 0;
    next_ = inputs_;
    for (size_t i = 0; i < inputs_; ++i) {
      if (is_one_row_) {
        At<OneRow>(i) = OneRow();
      } else {
        At<S>(i) = S();
      }
    }
  }

  // Whether all statements are there. If not, there is now room for them: begin
  // again.
  bool IsWhole() {
    needed_ = lost_ + (next_ - inputs_);
    return lost_ == 0;
  }

  // Records a number with some parts; returns its id, 0 if it has none.
  template <int... i>
  KIT_NUMBER_INLINE uint32_t Record(const S* slopes, const uint32_t* ids,
                                    for_each_internal::Indices<i...>) {
    static_assert(sizeof...(i) < kRoom);
    size_t begin = next_;
    if (__builtin_expect(begin >= limit_, 0)) {
      lost_ += begin - inputs_;
      begin = inputs_;
    }
    size_t at = begin;
    if (kHasRows && is_one_row_) {
      (Put(&at, SlopeAs<OneRow>(slopes[i]), ids[i]), ...);
      if (at == begin) return 0;
      At<OneRow>(at) = OneRow();
      Id<OneRow>(at) = static_cast<uint32_t>(begin);
    } else {
      (Put(&at, slopes[i], ids[i]), ...);
      if (at == begin) return 0;
      At<S>(at) = S();
      Id<S>(at) = static_cast<uint32_t>(begin);
    }
    next_ = at + 1;
    return static_cast<uint32_t>(at);
  }

  // The slope of the results towards a number.
  void AddSlope(uint32_t id, const S& slope) {
    if constexpr (kHasRows) {
      if (is_one_row_) {
        At<OneRow>(id) += slope.at(0);
        return;
      }
    }
    At<S>(id) += slope;
  }
  S SlopeOf(uint32_t id) const {
    if (kHasRows && is_one_row_) return S(At<OneRow>(id));
    return At<S>(id);
  }

  void Sweep() {
    if (kHasRows && is_one_row_) {
      SweepAs<OneRow>();
    } else {
      SweepAs<S>();
    }
  }

  // Gives a large tape back.
  void Trim() {
    if (size_ * (slope_bytes_ + sizeof(uint32_t)) > kKeptBytes) Free();
    if (cells.capacity() * sizeof(Var<S>) > kKeptBytes)
      std::vector<Var<S>>().swap(cells);
  }

  std::vector<Var<S>> cells;  // the arrays of a row

 private:
  using OneRow = typename RowOfScalar<S>::type;
  static constexpr bool kHasRows = !std::is_same_v<OneRow, S>;
  // Whether slope and id of an entry are neighbors, which a CPU stores faster
  // than to two arrays; not where that takes padding. N is the type of slopes,
  // S or OneRow.
  template <typename N>
  static constexpr bool kPacked = alignof(N) == alignof(uint32_t);
  template <typename N>
  static constexpr size_t kStep = sizeof(N) +
                                  (kPacked<N> ? sizeof(uint32_t) : 0);

  template <typename N>
  N& At(size_t at) const {
    return *reinterpret_cast<N*>(slopes_ + at * kStep<N>);
  }
  template <typename N>
  uint32_t& Id(size_t at) const {
    if constexpr (kPacked<N>) {
      return *reinterpret_cast<uint32_t*>(slopes_ + at * kStep<N> + sizeof(N));
    } else {
      return reinterpret_cast<uint32_t*>(ids_)[at];
    }
  }
  template <typename N>
  KIT_NUMBER_INLINE void Put(size_t* at, const N& slope, uint32_t id) {
    At<N>(*at) = slope;
    Id<N>(*at) = id;
    *at += id != 0;
  }

  template <typename N>
  void SweepAs() {
    for (size_t end = next_; end > inputs_;) {
      const size_t own = end - 1;
      const N slope = At<N>(own);
      size_t k = end = Id<N>(own);
      if constexpr (std::is_arithmetic_v<N>) {
        if (slope == 0) continue;
      }
      // Most statements have few parts: without a loop.
      for (; own - k > 4; ++k) AddPart(k, slope);
      switch (own - k) {
        case 4:
          AddPart(own - 4, slope);
          [[fallthrough]];
        case 3:
          AddPart(own - 3, slope);
          [[fallthrough]];
        case 2:
          AddPart(own - 2, slope);
          [[fallthrough]];
        case 1:
          AddPart(own - 1, slope);
          break;
        default:
          __builtin_unreachable();
      }
    }
  }
  // Adds to a number's slope what it gets of a statement.
  template <typename N>
  KIT_NUMBER_INLINE void AddPart(size_t k, const N& slope) {
    const uint32_t id = Id<N>(k);
    if constexpr (kRowsOf<S> > 1) {
      N* const sum = &At<N>(id & ~kChoice);
      if ((id & kChoice) != 0) return AddChosen(At<N>(k), slope, sum);
      AddProduct(At<N>(k), slope, sum);
    } else {
      AddProduct(At<N>(k), slope, &At<N>(id));
    }
  }

  // Entries behind the limit: any statement fits there.
  static constexpr size_t kRoom = 16;

  size_t BytesOfSlope() const {
    return is_one_row_ ? sizeof(OneRow) : sizeof(S);
  }
  TapeError Error(const char* why, size_t bytes) const {
    return TapeError(is_one_row_ ? 1 : kRowsOf<S>, why, bytes);
  }

  // To what is needed, and some more.
  __attribute__((cold, noinline)) void Resize() {
    const size_t used = inputs_ + needed_;
    size_t most = most_ / (BytesOfSlope() + sizeof(uint32_t));
    if (most > kChoice - 1) most = kChoice - 1;
    if (used + kRoom >= most) throw Error("needs more than", most_);
    const size_t wanted = used + used / 4 + 4096;
    Free();
    size_ = wanted < most ? wanted : most;
    slopes_ = Allocate(size_ * (is_one_row_ ? kStep<OneRow> : kStep<S>));
    if (!kPacked<OneRow> || !kPacked<S>)
      ids_ = Allocate(size_ * sizeof(uint32_t));
    slope_bytes_ = BytesOfSlope();
    limit_ = size_ - kRoom;
  }
  char* Allocate(size_t bytes) const {
    constexpr size_t kAlign = alignof(S) > 64 ? alignof(S) : 64;
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    void* const made = std::aligned_alloc(kAlign, bytes);
    if (made == nullptr) throw Error("gets no", bytes);
    return static_cast<char*>(made);
  }
  void Free() {
    std::free(slopes_);
    std::free(ids_);
    slopes_ = ids_ = nullptr;
    size_ = limit_ = slope_bytes_ = 0;
  }

  // Pointers and sizes are of types that no store of an entry can change, so
  // that the compiler keeps them in registers from one statement to the next.
  size_t next_ = 0, limit_ = 0, inputs_ = 0, lost_ = 0;
  char* slopes_ = nullptr;
  char* ids_ = nullptr;
  size_t size_ = 0, needed_ = 0, slope_bytes_ = 0, most_ = kTapeBytes;
  bool is_one_row_ = false;
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
  // Copies of the whole would load together what was just stored apart, for
  // which CPUs wait.
  Var(const Var& x) : v(x.v), id(x.id) {}
  Var& operator=(const Var& x) {
    v = x.v;
    id = x.id;
    return *this;
  }
  // NOLINTBEGIN(google-explicit-constructor): constants convert implicitly
  template <typename N, IfConstant<N> = 0>
  Var(N constant) : v(ConstantOf<S>(constant)) {}
  template <typename N,
            std::enable_if_t<std::is_same_v<N, S> && kIsNumber<N>, int> = 0>
  Var(const N& scalar) : v(scalar) {}
  template <int kCount>
  KIT_NUMBER_INLINE Var(const Expression<S, kCount>& x)
      : v(x.v),
        id(Tape<S>::current->Record(
            x.slopes, x.ids, for_each_internal::IndicesBelow<kCount>())) {}
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
template <typename S, int kCount, int kOfX, int... i>
KIT_NUMBER_INLINE void AppendEach(Expression<S, kCount>& y, int at,
                                  const Expression<S, kOfX>& x, const S& slope,
                                  for_each_internal::Indices<i...>) {
  ((y.slopes[at + i] = slope * x.slopes[i], y.ids[at + i] = x.ids[i]), ...);
}
template <typename S, int kCount, int kOfX>
KIT_NUMBER_INLINE void Append(Expression<S, kCount>& y, int at,
                              const Expression<S, kOfX>& x, const S& slope) {
  AppendEach(y, at, x, slope, for_each_internal::IndicesBelow<kOfX>());
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
// The expression is declared in the function's outermost block: elsewhere, gcc
// before 14 copies what is returned, and through memory.
template <typename S, typename A, typename B,
          int kOfA = CountOf(static_cast<const A*>(nullptr)),
          int kOfB = CountOf(static_cast<const B*>(nullptr)),
          std::enable_if_t<(kOfA + kOfB <= kMostSlopes), int> = 0>
KIT_NUMBER_INLINE Expression<S, kOfA + kOfB> Chain(const S& v, const A& a,
                                                   const S& slope_a, const B& b,
                                                   const S& slope_b) {
  Expression<S, kOfA + kOfB> y;
  y.v = v;
  Append(y, 0, a, slope_a);
  Append(y, kOfA, b, slope_b);
  return y;
}
template <typename S, typename A, typename B,
          int kOfA = CountOf(static_cast<const A*>(nullptr)),
          int kOfB = CountOf(static_cast<const B*>(nullptr)),
          std::enable_if_t<(kOfA + kOfB > kMostSlopes), int> = 0>
KIT_NUMBER_INLINE Expression<S, 2> Chain(const S& v, const A& a,
                                         const S& slope_a, const B& b,
                                         const S& slope_b) {
  const Var<S> of_a(a), of_b(b);
  return Chain(v, of_a, slope_a, of_b, slope_b);
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
