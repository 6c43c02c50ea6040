// The rows of `xla_ffi_kit.rows` in lanes: a group of rows at a time is copied,
// transposed, through a window that the cache holds.

#ifndef XLA_FFI_INLINE_LANE_ROWS_H_
#define XLA_FFI_INLINE_LANE_ROWS_H_

#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "xla_ffi/inline/lanes.h"
#include "xla_ffi/inline/lanes_functions.h"  // IWYU pragma: export
#include "xla_ffi/inline/parameters.h"
#include "xla_ffi/inline/rows.h"

namespace kit {
namespace lanes_internal {

// 16 bytes of floats: a square of them is transposed in registers.
template <typename F>
struct Square {
  static constexpr int kSide = 16 / sizeof(F);
  typedef F Vector __attribute__((vector_size(16)));
};

KIT_INLINE Square<float>::Vector Load(const float* from) {
  Square<float>::Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
KIT_INLINE Square<double>::Vector Load(const double* from) {
  Square<double>::Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <typename Storage>
KIT_INLINE Square<float>::Vector Load(const Half<Storage>* from) {
  return Square<float>::Vector{float(from[0]), float(from[1]), float(from[2]),
                               float(from[3])};
}
KIT_INLINE void Store(const Square<float>::Vector& v, float* to) {
  std::memcpy(to, &v, sizeof(v));
}
KIT_INLINE void Store(const Square<double>::Vector& v, double* to) {
  std::memcpy(to, &v, sizeof(v));
}
template <typename Storage>
KIT_INLINE void Store(const Square<float>::Vector& v, Half<Storage>* to) {
  for (int i = 0; i < 4; ++i) to[i] = v[i];
}

#if defined(__clang__) || __GNUC__ >= 12
#define KIT_SHUFFLE(...) __builtin_shufflevector(__VA_ARGS__)
#else
#define KIT_SHUFFLE(a, b, ...) \
  __builtin_shuffle(a, b, decltype((a) < (b)){__VA_ARGS__})
#endif
KIT_INLINE void Transpose(Square<float>::Vector (&v)[4]) {
  const auto a = KIT_SHUFFLE(v[0], v[1], 0, 4, 1, 5);
  const auto b = KIT_SHUFFLE(v[2], v[3], 0, 4, 1, 5);
  const auto c = KIT_SHUFFLE(v[0], v[1], 2, 6, 3, 7);
  const auto d = KIT_SHUFFLE(v[2], v[3], 2, 6, 3, 7);
  v[0] = KIT_SHUFFLE(a, b, 0, 1, 4, 5);
  v[1] = KIT_SHUFFLE(a, b, 2, 3, 6, 7);
  v[2] = KIT_SHUFFLE(c, d, 0, 1, 4, 5);
  v[3] = KIT_SHUFFLE(c, d, 2, 3, 6, 7);
}
KIT_INLINE void Transpose(Square<double>::Vector (&v)[2]) {
  const auto a = KIT_SHUFFLE(v[0], v[1], 0, 2);
  v[1] = KIT_SHUFFLE(v[0], v[1], 1, 3);
  v[0] = a;
}
#undef KIT_SHUFFLE

// Copies `size` elements of each row into lanes. Lanes without a row get the
// last one: they compute what is thrown away.
template <typename E, typename F>
void Gather(const E* row, int64_t stride, int rows, int64_t size, F* lanes) {
  constexpr int kCount = Lanes<F>::kCount, kSide = Square<F>::kSide;
  if (rows == 1) {
    for (int64_t i = 0; i < size; ++i) {
      const Lanes<F> same(static_cast<F>(row[i]));
      std::memcpy(lanes + i * kCount, &same, sizeof(same));
    }
    return;
  }
  for (int lane = 0; lane < kCount; lane += kSide) {
    const E* rows_of[kSide];
    for (int j = 0; j < kSide; ++j) {
      const int at = lane + j;
      rows_of[j] = row + (at < rows ? at : rows - 1) * stride;
    }
    F* to = lanes + lane;
    int64_t i = 0;
    for (; i + kSide <= size; i += kSide) {
      typename Square<F>::Vector v[kSide];
      for (int j = 0; j < kSide; ++j) v[j] = Load(rows_of[j] + i);
      Transpose(v);
      for (int j = 0; j < kSide; ++j) Store(v[j], to + (i + j) * kCount);
    }
    for (; i < size; ++i) {
      for (int j = 0; j < kSide; ++j) {
        to[i * kCount + j] = static_cast<F>(rows_of[j][i]);
      }
    }
  }
}

// The inverse: copies the lanes that have a row.
template <typename F, typename E>
void Scatter(const F* lanes, int64_t size, E* row, int64_t stride, int rows) {
  constexpr int kCount = Lanes<F>::kCount, kSide = Square<F>::kSide;
  for (int lane = 0; lane < rows; lane += kSide) {
    const F* from = lanes + lane;
    E* to = row + lane * stride;
    int64_t i = 0;
    if (lane + kSide <= rows) {
      for (; i + kSide <= size; i += kSide) {
        typename Square<F>::Vector v[kSide];
        for (int j = 0; j < kSide; ++j) v[j] = Load(from + (i + j) * kCount);
        Transpose(v);
        for (int j = 0; j < kSide; ++j) Store(v[j], to + j * stride + i);
      }
    }
    const int count = rows - lane < kSide ? rows - lane : kSide;
    for (; i < size; ++i) {
      for (int j = 0; j < count; ++j) {
        to[j * stride + i] = static_cast<E>(from[i * kCount + j]);
      }
    }
  }
}

}  // namespace lanes_internal

// Groups of as many rows as there are lanes; the last one may have fewer.
template <typename L>
int64_t GroupsOf(int64_t rows) {
  return (rows + L::kCount - 1) / L::kCount;
}

// An element of a result. It is what was there, and assigning to it writes.
// Only what out[i] returns can be assigned to, so that a copy of it cannot.
template <typename L>
struct Element : L {
  KIT_INLINE Element(const L& was, L* to) : L(was), to_(to) {}
  Element(const Element&) = default;
  KIT_INLINE L operator=(const L& x) && { return *to_ = x; }
  KIT_INLINE L operator=(const Element& x) && {
    return *to_ = static_cast<const L&>(x);
  }
#define KIT_ELEMENT_ASSIGNMENT(op)                   \
  template <typename X>                              \
  KIT_INLINE L operator op## = (const X& x) && {     \
    return *to_ = static_cast<const L&>(*this) op x; \
  }
  KIT_ELEMENT_ASSIGNMENT(+)
  KIT_ELEMENT_ASSIGNMENT(-)
  KIT_ELEMENT_ASSIGNMENT(*)
  KIT_ELEMENT_ASSIGNMENT(/)
#undef KIT_ELEMENT_ASSIGNMENT
  L operator++() && = delete;
  L operator--() && = delete;

 private:
  L* to_;
};

template <int kNone = 0, typename L>
KIT_INLINE L max(const Element<L>& a, const Element<L>& b) {
  return max(static_cast<const L&>(a), static_cast<const L&>(b));
}
template <int kNone = 0, typename L>
KIT_INLINE L min(const Element<L>& a, const Element<L>& b) {
  return min(static_cast<const L&>(a), static_cast<const L&>(b));
}

// The part of one array that the rows of a group own. T is const for operands.
// It is seen through windows that the first-level cache holds: two of them
// while the row is read or written once from end to end, more if one is needed
// again.
template <typename T>
class LaneRow {
  using E = std::remove_const_t<T>;
  static constexpr bool kIsResult = !std::is_const_v<T>;

 public:
  using L = LanesOf<E>;
  using F = Accumulate<E>;
  using Value = std::conditional_t<kIsResult, Element<L>, const L>;

  // All rows of an array. Where elements of a result may be those of an
  // operand, `keeps` what was there.
  LaneRow(const Buffer<T>& buffer, int64_t rows, bool keeps = false)
      : data_(buffer.data()),
        rows_(rows),
        size_(buffer.size() / rows),
        keeps_(keeps),
        windows_(size_ / kWindow + 1),
        most_(windows_ < kMost ? windows_ : kMost),
        memory_(most_ * kWindow * sizeof(L) + windows_ * sizeof(int16_t)),
        slots_(reinterpret_cast<int16_t*>(At(most_))) {}

  // Goes to a group of rows.
  void Begin(int64_t group) {
    const int64_t first = group * L::kCount, left = rows_ - first;
    row_ = data_ + first * size_;
    count_ = static_cast<int>(left < L::kCount ? left : L::kCount);
    for (int64_t w = 0; w < windows_; ++w) slots_[w] = kNew;
    used_ = next_ = 0;
    limit_ = 2 < most_ ? 2 : most_;
    begin_ = size_here_ = 0;
  }
  // Writes what is left to write of the group's rows.
  void End() {
    for (int64_t slot = 0; slot < used_; ++slot) Write(slot);
  }

  int64_t size() const { return size_; }
  KIT_INLINE Value operator[](int64_t i) const {
    if (__builtin_expect(static_cast<uint64_t>(i - begin_) >=
                             static_cast<uint64_t>(size_here_),
                         0)) {
      Move(i);
    }
    L* const at = here_ + (i - begin_);
    if constexpr (kIsResult) {
      return Value(*at, at);
    } else {
      return *at;
    }
  }

  class Iterator {
   public:
    Iterator(const LaneRow* row, int64_t i) : row_(row), i_(i) {}
    Value operator*() const { return (*row_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return i_ != other.i_; }

   private:
    const LaneRow* row_;
    int64_t i_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  static constexpr int64_t kWindow = (4 << 10) / sizeof(L), kMost = 64;
  static constexpr int16_t kNew = -1, kLeft = -2;  // where it has no slot

  L* At(int64_t slot) const {
    return static_cast<L*>(memory_.data) + slot * kWindow;
  }
  int64_t SizeOf(int64_t window) const {
    const int64_t left = size_ - window * kWindow;
    return left < kWindow ? left : kWindow;
  }
  void Read(int64_t slot) const {
    const int64_t w = window_of_[slot];
    lanes_internal::Gather(row_ + w * kWindow, size_, count_, SizeOf(w),
                           reinterpret_cast<F*>(At(slot)));
  }
  void Write([[maybe_unused]] int64_t slot) const {
    if constexpr (kIsResult) {
      const int64_t w = window_of_[slot];
      lanes_internal::Scatter(reinterpret_cast<const F*>(At(slot)), SizeOf(w),
                              row_ + w * kWindow, size_, count_);
    }
  }

  // Goes to the window of element `i`; it may take the place of another one.
  __attribute__((noinline, cold)) void Move(int64_t i) const {
    const int64_t w = i < 0 ? 0 : i < size_ ? i / kWindow : windows_ - 1;
    int64_t slot = slots_[w];
    if (slot < 0) {
      const bool was_there = slot == kLeft;
      if (was_there) limit_ = 2 * limit_ < most_ ? 2 * limit_ : most_;
      if (used_ < limit_) {
        slot = used_++;
      } else {
        if (At(next_) == here_) next_ = (next_ + 1) % used_;
        slot = next_;
        next_ = (next_ + 1) % used_;
        Write(slot);
        slots_[window_of_[slot]] = kLeft;
      }
      slots_[w] = static_cast<int16_t>(slot);
      window_of_[slot] = w;
      // What nobody has written yet need not be read.
      if (!kIsResult || keeps_ || was_there) Read(slot);
    }
    here_ = At(slot);
    begin_ = w * kWindow;
    size_here_ = kWindow;
  }

  struct Memory {
    explicit Memory(size_t size)
        : data(operator new(size, std::align_val_t{64})) {}
    ~Memory() { operator delete(data, std::align_val_t{64}); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    void* const data;
  };

  T* const data_;
  const int64_t rows_, size_;
  const bool keeps_;
  // The windows of a row, and the most that there may be at a time.
  const int64_t windows_, most_;
  const Memory memory_;
  int16_t* const slots_;  // of each window
  T* row_ = nullptr;
  int count_ = 0;
  // The window of the last element.
  mutable L* here_ = nullptr;
  mutable int64_t begin_ = 0, size_here_ = 0;
  // The slots that are used, that may be, and the next one to be used again.
  mutable int64_t used_ = 0, limit_ = 0, next_ = 0;
  mutable int64_t window_of_[kMost];
};

// Whether a result may be where an operand is.
template <typename T, typename... U>
bool IsAmong(const Buffer<T>& result, const Buffer<U>&... operands) {
  const auto is_apart = [&](const auto& operand) {
    return static_cast<const void*>(result.end()) <= operand.data() ||
           static_cast<const void*>(operand.end()) <= result.data();
  };
  return !(is_apart(operands) && ...);
}

namespace for_each_internal {
template <typename T>
struct Traits<LaneRow<T>> {
  using Type = typename LaneRow<T>::L;
  static constexpr bool kIsOperand = std::is_const_v<T>;
  static constexpr bool kIsResult = !kIsOperand;
};
}  // namespace for_each_internal
}  // namespace kit

namespace std {
using kit::max;  // those above, too
using kit::min;
}  // namespace std

#endif  // XLA_FFI_INLINE_LANE_ROWS_H_
