// A thread's access to its row. It reads and writes 16 bytes at a time if a
// loop goes through the row in order, forwards or backwards. Any other order
// works, too.
//
// Another row's bytes are neither read nor written: the packs of 16 bytes that
// a row shares with its neighbors are accessed by elements.

#ifndef XLA_FFI_STRINGS_CUDA_ROWS_H_
#define XLA_FFI_STRINGS_CUDA_ROWS_H_

#include "xla_ffi/strings/cuda/array.h"
#include "xla_ffi/strings/cuda/element.h"
#include "xla_ffi/strings/cuda/pack.h"
#include "xla_ffi/strings/cuda/standard.h"

namespace kit {

// The place of a row in memory. Rows of other threads are `stride` elements
// apart.
template <typename T>
class Place {
 public:
  Place(T* data, int64_t size, int64_t stride)
      : data_(data), size_(size), stride_(stride) {}

  int64_t size() const { return size_; }
  // The row of the thread that many lanes further in the warp.
  T* of_lane(int lanes) const { return data_ + lanes * stride_; }

 protected:
  // Whether all bytes of a pack are the row's.
  bool Holds(const T* pack) const {
    const auto at = reinterpret_cast<uintptr_t>(pack);
    return at >= reinterpret_cast<uintptr_t>(data_) &&
           at + 16 <= reinterpret_cast<uintptr_t>(data_ + size_);
  }

  T* data_;
  int64_t size_;
  int64_t stride_;
};

// An operand's part of one row.
template <typename T>
class Row<const T> : public Place<const T> {
 public:
  using Place<const T>::Place;

  // Goes through a row in order.
  class Iterator {
   public:
    Iterator(const Row* row, int64_t i) : row_(row), i_(i) {}
    T operator*() const { return (*row_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return i_ != other.i_; }
    bool operator==(const Iterator& other) const { return i_ == other.i_; }

   private:
    const Row* row_;
    int64_t i_;
  };

  T operator[](int64_t i) const {
    const T* element = this->data_ + i;
    const T* pack = PackOf(element);
    if (pack == held_) return window_.Get(static_cast<int>(element - pack));
    return Move(element, pack);
  }
  const T* data() const { return this->data_; }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, this->size_}; }
  void Forget() const { held_ = ahead_ = nullptr; }

 private:
  // Moves the window to a pack. The second move in one direction also begins to
  // load the pack that is next there, which arrives while this one is used.
  T Move(const T* element, const T* pack) const {
    if (!this->Holds(pack)) return *element;
    constexpr int64_t kStep = Pack<T>::kSize;
    const T* before = pack - kStep;
    const T* after = pack + kStep;
    const T* next = held_ == nullptr  ? nullptr
                    : held_ == before ? after
                    : held_ == after  ? before
                                      : nullptr;
    window_ = pack == ahead_ ? next_ : Pack<T>::Load(pack);
    held_ = pack;
    ahead_ = next != nullptr && this->Holds(next) ? next : nullptr;
    if (ahead_ != nullptr) next_ = Pack<T>::Load(ahead_);
    return window_.Get(static_cast<int>(element - pack));
  }

  mutable const T* held_ = nullptr;   // the pack in the window
  mutable const T* ahead_ = nullptr;  // the pack in next_
  mutable Pack<T> window_, next_;
};

// A result's part of one row.
template <typename T>
class Row : public Place<T> {
 public:
  using Place<T>::Place;
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  ~Row() { Flush(); }

  Element<T> operator[](int64_t i) const { return Element<T>(this, i); }
  // After this call, everything is read and written through memory.
  T* data() const {
    Forget();
    is_direct_ = true;
    return this->data_;
  }
  T* begin() const { return data(); }
  T* end() const { return data() + this->size_; }

  T Get(int64_t i) const {
    T* element = this->data_ + i;
    T* pack = PackOf(element);
    const int place = static_cast<int>(element - pack);
    if (pack == held_ && (known_ >> place & 1)) return window_.Get(place);
    if (pack == before_ && (known_before_ >> place & 1)) {
      return last_.Get(place);
    }
    return *element;
  }

  void Set(int64_t i, T value) const {
    T* element = this->data_ + i;
    T* pack = PackOf(element);
    if (pack != held_) {
      if (is_direct_ || !this->Holds(pack)) {
        *element = value;
        return;
      }
      Flush();
      before_ = held_;
      last_ = window_;
      known_before_ = known_;
      held_ = pack;
      known_ = 0;
    }
    const int place = static_cast<int>(element - pack);
    window_.Set(place, value);
    known_ |= 1u << place;
    changed_ |= 1u << place;
    if (changed_ == kAll) {
      window_.Store(held_);
      changed_ = 0;
    }
  }

  // Writes what the window holds, and holds nothing.
  void Forget() const {
    Flush();
    held_ = before_ = nullptr;
  }

 private:
  static constexpr int kSize = Pack<T>::kSize;
  static constexpr unsigned kAll = (1u << kSize) - 1;

  void Flush() const {
    if (changed_ == 0) return;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if (changed_ >> i & 1) held_[i] = window_.Get(i);
    }
    changed_ = 0;
  }

  mutable T* held_ = nullptr;                      // the pack in the window
  mutable T* before_ = nullptr;                    // the one that was, in last_
  mutable unsigned known_ = 0, known_before_ = 0;  // elements that were set
  mutable unsigned changed_ = 0;  // those of the window that memory lacks
  mutable Pack<T> window_, last_;
  mutable bool is_direct_ = false;
};

// All of an operand that every row shares, for each thread to read.
template <typename T>
class Shared;
template <typename T>
class Shared<const T> : public Place<const T> {
 public:
  using Place<const T>::Place;
  const T& operator[](int64_t i) const { return this->data_[i]; }
  const T* data() const { return this->data_; }
  const T* begin() const { return this->data_; }
  const T* end() const { return this->data_ + this->size_; }
  void Forget() const {}
};

// Row `i` of the parts of a buffer.
template <typename T>
Row<T> RowOf(const Buffer<T>& buffer, int64_t i) {
  const int64_t size = buffer.size_per_item();
  return Row<T>(buffer.data() + i * size, size, size);
}

template <typename T>
Shared<T> SharedRow(const Buffer<T>& buffer) {
  return Shared<T>(buffer.data(), buffer.size(), 0);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_CUDA_ROWS_H_
