// The type of `out[i]` on a GPU.

#ifndef XLA_FFI_STRINGS_CUDA_ELEMENT_H_
#define XLA_FFI_STRINGS_CUDA_ELEMENT_H_

#include "xla_ffi/strings/cuda/standard.h"
#include "xla_ffi/strings/half.h"

namespace kit {

template <typename T>
class Row;

// Stands for an element of a result where it is read or assigned to. It cannot
// be kept: `auto v = out[i]` compiles, and the use of such a v does not, as it
// would change with the element. `T v = out[i]` is the element's value.
template <typename T>
class ElementBase {
 public:
  ElementBase(const ElementBase&) = delete;
  ElementBase& operator=(const ElementBase&) = delete;
  operator T() && { return Get(); }  // NOLINT: as the element itself

 protected:
  ElementBase(const Row<T>* row, int64_t i) : row_(row), i_(i) {}
  T Get() const { return row_->Get(i_); }
  T Set(T value) const {
    row_->Set(i_, value);
    return value;
  }

 private:
  const Row<T>* row_;
  int64_t i_;
};

// A 16-bit float is a float in expressions.
template <typename T, typename A = Accumulate<T>>
class ElementAsNumber : public ElementBase<T> {
 public:
  operator A() && { return this->Get(); }  // NOLINT: as the element itself

 protected:
  using ElementBase<T>::ElementBase;
};
template <typename T>
class ElementAsNumber<T, T> : public ElementBase<T> {
 protected:
  using ElementBase<T>::ElementBase;
};

template <typename T>
class Element : public ElementAsNumber<T> {
 public:
  Element(const Row<T>* row, int64_t i) : ElementAsNumber<T>(row, i) {}

  // NOLINTBEGIN(misc-unconventional-assign-operator): of a temporary
  T operator=(Element&& other) && { return this->Set(other.Get()); }
  template <typename V>
  T operator=(const V& value) && {
    T converted;
    converted = value;
    return this->Set(converted);
  }
  // NOLINTEND(misc-unconventional-assign-operator)

#define KIT_ASSIGN(op)                                                        \
  template <typename V>                                                       \
  T operator op## = (V && value) && {                                         \
    return this->Set(static_cast<T>(this->Get() op static_cast<V&&>(value))); \
  }
  KIT_ASSIGN(+)
  KIT_ASSIGN(-)
  KIT_ASSIGN(*)
  KIT_ASSIGN(/)
  KIT_ASSIGN(%)
  KIT_ASSIGN(&)
  KIT_ASSIGN(|)
  KIT_ASSIGN(^)
  KIT_ASSIGN(<<)
  KIT_ASSIGN(>>)
#undef KIT_ASSIGN
  T operator++() && { return this->Set(static_cast<T>(this->Get() + 1)); }
  T operator--() && { return this->Set(static_cast<T>(this->Get() - 1)); }
  T operator++(int) && {
    const T before = this->Get();
    this->Set(static_cast<T>(before + 1));
    return before;
  }
  T operator--(int) && {
    const T before = this->Get();
    this->Set(static_cast<T>(before - 1));
    return before;
  }

  // Exchanges two elements.
  void Swap(Element&& other) {
    const T value = this->Get();
    this->Set(other.Get());
    other.Set(value);
  }
};

}  // namespace kit

// Functions whose parameters are of one type, which an element's is not.
namespace std {

template <typename T>
void swap(kit::Element<T>&& a, kit::Element<T>&& b) {
  a.Swap(static_cast<kit::Element<T>&&>(b));
}

#define KIT_CHOOSE(name)                                \
  template <typename T>                                 \
  T name(kit::Element<T>&& a, const T& b) {             \
    const T first = static_cast<kit::Element<T>&&>(a);  \
    return std::name(first, b);                         \
  }                                                     \
  template <typename T>                                 \
  T name(const T& a, kit::Element<T>&& b) {             \
    const T second = static_cast<kit::Element<T>&&>(b); \
    return std::name(a, second);                        \
  }                                                     \
  template <typename T>                                 \
  T name(kit::Element<T>&& a, kit::Element<T>&& b) {    \
    const T first = static_cast<kit::Element<T>&&>(a);  \
    const T second = static_cast<kit::Element<T>&&>(b); \
    return std::name(first, second);                    \
  }
KIT_CHOOSE(min)
KIT_CHOOSE(max)
#undef KIT_CHOOSE

}  // namespace std

#endif  // XLA_FFI_STRINGS_CUDA_ELEMENT_H_
