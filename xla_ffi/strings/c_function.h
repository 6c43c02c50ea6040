// What stands around the call of a C function: xla_ffi_kit.c_function writes a
// handler's function for each declaration, with these parts.
//
// The library has the addresses of its functions in XlaFfiKit_functions, which
// the package sets when it loads the library. A program names the handler and
// contains no address, so that it can be written to a file.

#ifndef XLA_FFI_STRINGS_C_FUNCTION_H_
#define XLA_FFI_STRINGS_C_FUNCTION_H_

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "xla_ffi/strings/check.h"
#include "xla_ffi/strings/parameters.h"

namespace kit {

// `max` and `min` of a declaration's sizes.
inline int64_t LargerOf(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t SmallerOf(int64_t a, int64_t b) { return a < b ? a : b; }

// What is wrong with a call.
class CallError : public std::exception {
 public:
  explicit CallError(const Text& text) : text_(text) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  mutable Text text_;
};

KIT_COLD inline void WriteSigned(Text& text, int64_t number) {
  if (number < 0) text << "-";
  text << (number < 0 ? -number : number);
}

// Fails if an axis of an array has not the size that the declaration says, by
// an axis of another array or a number.
template <typename T>
void CheckSize(const char* array, const Buffer<T>& buffer, int64_t axis,
               const char* size, int64_t expected) {
  const int64_t got = buffer.dim(axis);
  if (got == expected) return;
  Text text;
  text << array << ": expected axis ";
  WriteSigned(text, axis);
  text << " of size " << size << " = ";
  WriteSigned(text, expected);
  text << ", got " << got;
  throw CallError(text);
}

// A size as the type that the function takes it in.
template <typename T>
T SizeAs(const char* parameter, int64_t size) {
  const T made = static_cast<T>(size);
  if (static_cast<int64_t>(made) == size) return made;
  Text text;
  text << parameter << ": expected a size that fits its type, got ";
  WriteSigned(text, size);
  throw CallError(text);
}

// Elements of a row of a buffer, whose own axes are the last `axes` ones.
template <typename T>
int64_t ElementsOf(const Buffer<T>& buffer, int64_t axes) {
  int64_t elements = 1;
  for (int64_t axis = -axes; axis < 0; ++axis) elements *= buffer.dim(axis);
  return elements;
}

// Nobody knows how long a function takes. An element of a special function
// takes as long as the transfer of some hundred bytes, one of a row less.
inline int64_t CostOfRow(int64_t longest) {
  return LargerOf(512, 64 * longest);
}

// XLA's results are what their memory was before. A function that reads what
// it is to write gets NaN, or -1, and not the numbers of another call, which
// would look right. It takes a tenth of the time of a copy of nine numbers.
template <typename T>
void Spoil(T* row, int64_t elements) {
  std::memset(static_cast<void*>(row), 0xFF, sizeof(T) * elements);
}

// What an in-out parameter is to overwrite, unless XLA has it there already.
template <typename T>
void CopyRow(T* to, const T* from, int64_t elements) {
  if (to == from || elements == 0) return;
  std::memcpy(static_cast<void*>(to), from, sizeof(T) * elements);
}

// Memory that a function works in, of one thread.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t elements)
      : data_(std::malloc(sizeof(T) * LargerOf(elements, 1))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_;
};

// The first row of a call, on any thread, for which the function returned
// another status than 0.
class Failure {
 public:
  void Set(int64_t row, int64_t status) {
    int64_t none = -1;
    if (__atomic_compare_exchange_n(&row_, &none, row, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      status_ = status;
    }
  }
  // Once all threads are done. `meaning` tells what a status is, or null.
  void Throw(const char* (*meaning)(int64_t status)) const {
    if (row_ < 0) return;
    Text text;
    text << "status: expected 0, got ";
    WriteSigned(text, status_);
    text << " for row " << row_;
    const char* const told = meaning(status_);
    if (told != nullptr) text << ": " << told;
    throw CallError(text);
  }

 private:
  int64_t row_ = -1, status_ = 0;
};

// Functions that are not thread-safe often share what they write: one thread
// of the process is in one of them.
class Lock {
 public:
  explicit Lock(pthread_mutex_t* mutex) : mutex_(mutex) {
    pthread_mutex_lock(mutex_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { pthread_mutex_unlock(mutex_); }

 private:
  pthread_mutex_t* mutex_;
};

}  // namespace kit

#endif  // XLA_FFI_STRINGS_C_FUNCTION_H_
