// kit::groups: each row of one array, and the rows of others that belong to it,
// for functions that get arrays whose batch axes differ.
//
//   // a: (..., n, n), b and x: (..., n); a matrix may have many right sides.
//   for (const auto& group : kit::groups<2, 1, 1>(a, b, x)) {
//     const Factors factors(group.first(), n);
//     for (const auto& [b_row, x_row] : group) factors.Solve(b_row, x_row);
//   }
//
// The numbers say how many of each array's last axes are a row's; all before
// them are batch axes. `vmap_method="expand_dims"` gives an array that it does
// not map axes of size one, and a shared operand has the first batch axes, or
// none: such an array has one row for many rows of the result, whose pointer
// comes again with each of them. With the result as the first array, each group
// is one of its rows. Groups are alike in size, and may be computed on several
// threads: groups.size(), groups[g], group.size(), group[i].

#ifndef XLA_FFI_STRINGS_GROUPS_H_
#define XLA_FFI_STRINGS_GROUPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <tuple>
#include <utility>

#include "xla_ffi/strings/parameters.h"

namespace kit {

// What groups() throws for arrays of which one is not a part of a whole batch.
struct GroupsError : std::exception {
  const char* what() const noexcept override {
    return "groups: expected arrays whose first axes are alike or of size one, "
           "behind which each has as many axes as a row of it";
  }
};

namespace groups_internal {

inline constexpr int64_t kMaxAxes = 32;

// Some batch axes, and how far apart their elements are in several arrays.
template <size_t kArrays>
struct Axes {
  using Each = std::array<int64_t, kArrays>;

  // Appends an axis, or makes the last one longer.
  void Add(int64_t its_size, const Each& its_strides) {
    if (its_size == 1) return;
    size *= its_size;
    bool goes_on = rank > 0;
    for (size_t k = 0; goes_on && k < kArrays; ++k) {
      goes_on = strides[rank - 1][k] == its_size * its_strides[k];
    }
    rank += !goes_on;
    sizes[rank - 1] = goes_on ? sizes[rank - 1] * its_size : its_size;
    strides[rank - 1] = its_strides;
  }

  // Returns where element `i` of these axes is in each array.
  Each OffsetsOf(int64_t i) const {
    Each offsets = {};
    for (int64_t axis = rank - 1; axis >= 0; --axis) {
      const int64_t at = axis == 0 ? i : i % sizes[axis];
      i /= axis == 0 ? 1 : sizes[axis];
      for (size_t k = 0; k < kArrays; ++k) offsets[k] += at * strides[axis][k];
    }
    return offsets;
  }

  int64_t rank = 0, size = 1;
  int64_t sizes[kMaxAxes];
  Each strides[kMaxAxes];
};

// Of something with size() and [i].
template <typename T>
class Iterator {
 public:
  Iterator(const T& of, int64_t i) : of_(of), i_(i) {}
  auto operator*() const { return of_[i_]; }
  bool operator!=(const Iterator& other) const { return i_ != other.i_; }
  void operator++() { ++i_; }

 private:
  const T& of_;
  int64_t i_;
};

// One row of the first array, and the rows of the others that belong to it.
template <typename First, typename... T>
class Group {
 public:
  Group(const Axes<sizeof...(T)>& axes, First* first, T*... at)
      : axes_(axes), first_(first), at_(at...) {}

  First* first() const { return first_; }
  int64_t size() const { return axes_.size; }
  std::tuple<T*...> operator[](int64_t i) const {
    return At(axes_.OffsetsOf(i), std::index_sequence_for<T...>());
  }
  Iterator<Group> begin() const { return {*this, 0}; }
  Iterator<Group> end() const { return {*this, size()}; }

 private:
  template <size_t... k>
  std::tuple<T*...> At(const std::array<int64_t, sizeof...(T)>& offsets,
                       std::index_sequence<k...>) const {
    return {std::get<k>(at_) + offsets[k]...};
  }

  const Axes<sizeof...(T)>& axes_;
  First* first_;
  std::tuple<T*...> at_;
};

template <typename First, typename... Others>
class Groups {
 public:
  static constexpr size_t kArrays = 1 + sizeof...(Others);
  using Each = std::array<int64_t, kArrays>;

  Groups(const Each& kernel_axes, const Buffer<First>& first,
         const Buffer<Others>&... others)
      : at_(first.data(), others.data()...) {
    const std::array<const int64_t*, kArrays> dims = {first.dims(),
                                                      others.dims()...};
    Each ranks = {first.rank(), others.rank()...}, strides;
    int64_t rank = 0;
    for (size_t k = 0; k < kArrays; ++k) {
      strides[k] = 1;
      for (int64_t i = 0; i < kernel_axes[k]; ++i) {
        if (--ranks[k] < 0) throw GroupsError();
        strides[k] *= dims[k][ranks[k]];
      }
      if (ranks[k] > rank) rank = ranks[k];
    }
    if (rank > kMaxAxes) throw GroupsError();
    // Strides follow from the last axis on.
    Each all[kMaxAxes];
    int64_t sizes[kMaxAxes];
    for (int64_t axis = rank - 1; axis >= 0; --axis) {
      sizes[axis] = 1;
      for (size_t k = 0; k < kArrays; ++k) {
        const int64_t size = axis < ranks[k] ? dims[k][axis] : 1;
        all[axis][k] = size == 1 ? 0 : strides[k];
        strides[k] *= size;
        if (size == 1) continue;
        if (sizes[axis] != 1 && sizes[axis] != size) throw GroupsError();
        sizes[axis] = size;
      }
    }
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (axis < ranks[0] && dims[0][axis] == sizes[axis]) {
        first_axes_.Add(sizes[axis], all[axis]);
        continue;
      }
      std::array<int64_t, kArrays - 1> of_others;
      for (size_t k = 1; k < kArrays; ++k) of_others[k - 1] = all[axis][k];
      other_axes_.Add(sizes[axis], of_others);
    }
  }

  int64_t size() const { return first_axes_.size; }
  // A group is a part of the groups, which must be there as long.
  Group<First, Others...> operator[](int64_t i) const& {
    return At(first_axes_.OffsetsOf(i), std::make_index_sequence<kArrays>());
  }
  Group<First, Others...> operator[](int64_t i) const&& = delete;
  Iterator<Groups> begin() const { return {*this, 0}; }
  Iterator<Groups> end() const { return {*this, size()}; }

 private:
  template <size_t... k>
  Group<First, Others...> At(const Each& offsets,
                             std::index_sequence<k...>) const {
    return {other_axes_, std::get<k>(at_) + offsets[k]...};
  }

  std::tuple<First*, Others*...> at_;
  Axes<kArrays> first_axes_;            // the axes that the first array has
  Axes<sizeof...(Others)> other_axes_;  // those that it lacks
};

}  // namespace groups_internal

template <int64_t... kKernelAxes, typename First, typename... Others>
auto groups(const Buffer<First>& first, const Buffer<Others>&... others) {
  static_assert(sizeof...(kKernelAxes) == 1 + sizeof...(Others),
                "groups<...> has the number of a row's axes of each array");
  return groups_internal::Groups<First, Others...>({kKernelAxes...}, first,
                                                   others...);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_GROUPS_H_
