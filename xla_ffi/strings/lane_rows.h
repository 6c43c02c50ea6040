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
template <typename E, typename F, int kN>
void Gather(const E* row, int64_t stride, int rows, int64_t size,
            Lanes<F, kN>* lanes) {
  constexpr int kCount = sizeof(*lanes) / sizeof(F), kSide = Square<F>::kSide;
  if (rows == 1) {
    for (int64_t i = 0; i < size; ++i) lanes[i] = static_cast<F>(row[i]);
    return;
  }
  for (int lane = 0; lane < kCount; lane += kSide) {
    const E* rows_of[kSide];
    for (int j = 0; j < kSide; ++j) {
      const int at = lane + j;
      rows_of[j] = row + (at < rows ? at : rows - 1) * stride;
    }
    F* to = reinterpret_cast<F*>(lanes) + lane;
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
template <typename F, int kN, typename E>
void Scatter(const Lanes<F, kN>* lanes, int64_t size, E* row, int64_t stride,
             int rows) {
  constexpr int kCount = sizeof(*lanes) / sizeof(F), kSide = Square<F>::kSide;
  for (int lane = 0; lane < rows; lane += kSide) {
    const F* from = reinterpret_cast<const F*>(lanes) + lane;
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

// Whether two arrays have a byte in common.
template <typename T, typename U>
bool Overlap(const Row<T>& a, const Row<U>& b) {
  return static_cast<const void*>(a.begin()) < b.end() &&
         static_cast<const void*>(b.begin()) < a.end();
}

// The parts of an array that the rows of a group own, transposed: element i is
// that of each row, in the lanes of one number.
template <typename L>
class Window {
 public:
  Window() = default;
  ~Window() { operator delete(data_, kAlignment); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  L* Allocate(int64_t size) {
    data_ = static_cast<L*>(operator new(size * sizeof(L), kAlignment));
    return data_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  L* data_ = nullptr;
};

// Calls use(a number) for the numbers in which so many rows of T run: those of
// a single row, which needs no wide registers, or lanes. Two rows take longer
// one after the other than in lanes.
template <typename T, typename Use>
void ForLanesOf(int64_t rows, const Use& use) {
  if (rows == 1) {
    use(LanesOf<T, 1>());
  } else {
    use(LanesOf<T>());
  }
}

// As RunRows(), for a group of rows at a time: each in a lane of the numbers L
// that `in` and `out` have. Integers run row by row.
template <typename L, typename T, typename F, int kIns, int kOuts>
void RunGroups(const F& f, const Threads& threads, int64_t rows,
               const Row<const T> (&whole_in)[kIns],
               const Row<T> (&whole_out)[kOuts]) {
  using Number = Accumulate<L>;
  const auto run = [&](int64_t begin, int64_t end) {
    Window<L> windows[kIns + kOuts];
    Row<const L> in[kIns];
    Row<L> out[kOuts];
    // Operands that are gathered, and results that begin with what is there,
    // as operands may be there.
    bool is_read[kIns] = {}, is_kept[kOuts] = {};
    for (int k = 0; k < kOuts; ++k) {
      const int64_t size = whole_out[k].size() / rows;
      out[k] = {windows[kIns + k].Allocate(size), size};
      for (const auto& x : whole_in) is_kept[k] |= Overlap(x, whole_out[k]);
    }
    for (int k = 0; k < kIns; ++k) {
      if (F::kit_is_shared[k]) continue;
      const int64_t size = whole_in[k].size() / rows;
      int at = 0;
      while (at < kOuts && whole_out[at].data() != whole_in[k].data()) ++at;
      is_read[k] = at == kOuts;
      in[k] = {is_read[k] ? windows[k].Allocate(size) : out[at].data(), size};
    }
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = group * L::kCount, left = rows - first;
      const int count = static_cast<int>(left < L::kCount ? left : L::kCount);
      const auto gather = [&](const T* data, int64_t size, const L* lanes) {
        lanes_internal::Gather(data + first * size, size, count, size,
                               static_cast<Number*>(const_cast<L*>(lanes)));
      };
      for (int k = 0; k < kIns; ++k) {
        if (!is_read[k]) continue;
        gather(whole_in[k].data(), in[k].size(), in[k].data());
      }
      for (int k = 0; k < kOuts; ++k) {
        if (!is_kept[k]) continue;
        gather(whole_out[k].data(), out[k].size(), out[k].data());
      }
      f(static_cast<const Row<const L>*>(in),
        static_cast<const Row<const T>*>(whole_in),
        static_cast<const Row<L>*>(out));
      for (int k = 0; k < kOuts; ++k) {
        const int64_t size = out[k].size();
        lanes_internal::Scatter(static_cast<const Number*>(out[k].data()), size,
                                whole_out[k].data() + first * size, size,
                                count);
      }
    }
  };
  const int64_t bytes = BytesOfRow<F>(rows, whole_in, whole_out);
  threads.For(GroupsOf<L>(rows), bytes * L::kCount, run);
}
template <typename T, typename F, int kIns, int kOuts>
void RunRowsInLanes(const F& f, const Threads& threads, int64_t rows,
                    const Row<const T> (&whole_in)[kIns],
                    const Row<T> (&whole_out)[kOuts]) {
  if constexpr (std::is_void_v<LanesOf<T>>) {
    RunRows<T>(f, threads, rows, whole_in, whole_out);
  } else if (rows != 0) {
    ForLanesOf<T>(rows, [&](auto number) {
      RunGroups<decltype(number)>(f, threads, rows, whole_in, whole_out);
    });
  }
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_LANE_ROWS_H_
