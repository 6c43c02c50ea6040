// The rows of `xla_ffi_kit.rows` in lanes: a group of rows at a time is copied,
// transposed, through a window that the cache holds.

#ifndef XLA_FFI_STRINGS_LANE_ROWS_H_
#define XLA_FFI_STRINGS_LANE_ROWS_H_

#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "xla_ffi/strings/lanes.h"
#include "xla_ffi/strings/lanes_functions.h"  // IWYU pragma: export
#include "xla_ffi/strings/parameters.h"
#include "xla_ffi/strings/rows.h"

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
// last row, and nobody reads what they compute.
template <typename E, typename F>
void Gather(const E* row, int64_t stride, int rows, int64_t size, F* lanes) {
  constexpr int kCount = Lanes<F>::kCount, kSide = Square<F>::kSide;
  if (rows == 1) {
    for (int64_t i = 0; i < size; ++i) {
      const Lanes<F> same(static_cast<F>(row[i]));
      std::memcpy(lanes + i * kCount, same.v, sizeof(same.v));
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

// The part of one array that the rows of a group own, transposed: element i is
// that of each row, in the lanes of one number. T is const for operands.
template <typename T>
class LaneRow {
  using E = std::remove_const_t<T>;

 public:
  using L = LanesOf<E>;
  using Element = std::conditional_t<std::is_const_v<T>, const L, L>;

  // All rows of an array. `keeps` says that a result begins with what was
  // there, as an operand does.
  LaneRow(const Buffer<T>& buffer, int64_t rows, bool keeps)
      : data_(buffer.data()),
        rows_(rows),
        size_(buffer.size() / rows),
        keeps_(keeps),
        memory_(size_ * sizeof(L)),
        here_(static_cast<L*>(memory_.data)) {}
  // An operand, whose elements are those of the result in its place if there
  // is one.
  template <typename... U>
  LaneRow(const Buffer<T>& buffer, int64_t rows, const LaneRow<U>&... results)
      : data_(buffer.data()),
        rows_(rows),
        size_(buffer.size() / rows),
        keeps_(!(results.IsAt(data_) || ...)),
        memory_(keeps_ ? size_ * sizeof(L) : 0),
        here_(static_cast<L*>(memory_.data)) {
    ((results.IsAt(data_) ? void(here_ = results.begin()) : void()), ...);
  }

  // Goes to a group of rows.
  void Begin(int64_t group) {
    const int64_t first = group * L::kCount, left = rows_ - first;
    row_ = data_ + first * size_;
    count_ = static_cast<int>(left < L::kCount ? left : L::kCount);
    if (keeps_) {
      lanes_internal::Gather(row_, size_, count_, size_,
                             reinterpret_cast<Accumulate<E>*>(here_));
    }
  }
  // Writes a result's elements.
  void End() {
    lanes_internal::Scatter(reinterpret_cast<const Accumulate<E>*>(here_),
                            size_, row_, size_, count_);
  }

  bool IsAt(const void* data) const { return data_ == data; }
  int64_t size() const { return size_; }
  Element& operator[](int64_t i) const { return here_[i]; }
  Element* begin() const { return here_; }
  Element* end() const { return here_ + size_; }

 private:
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
  const Memory memory_;
  L* here_;
  T* row_ = nullptr;
  int count_ = 0;
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

#endif  // XLA_FFI_STRINGS_LANE_ROWS_H_
