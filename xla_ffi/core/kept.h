// Objects that are expensive to make, made once and kept for later calls: a
// factorization, a plan, a model.
//
//   struct Factors {
//     explicit Factors(kit::Row<const double> a);  // copies what it needs of a
//     void Solve(kit::Row<const double> b, kit::Row<double> x) const;
//   };
//
//   const kit::Kept<Factors> factors(a);  // Factors(a), or that of before
//   factors->Solve(b, x);
//
// The parts of the key are the constructor's arguments: numbers, texts, arrays
// (anything with data() and size(), and the buffers of handlers), other kept
// objects. Equal bytes and sizes are the same key, on any thread and in any
// handler of the library. An object is a function of its key alone, so whether
// it is there already changes no result, and nobody frees it: the one that was
// not used for longest goes if there are too many, or too large ones. Who has a
// Kept keeps its object.

#ifndef XLA_FFI_CORE_KEPT_H_
#define XLA_FFI_CORE_KEPT_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>  // NOLINT
#include <stdexcept>
#include <string>
#include <thread>  // NOLINT
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace xla_ffi_kit {

// The most bytes and objects that one library keeps, read when it is loaded.
// One object may be larger. An object without a member `bytes()`, which says
// its size, counts as large as its key.
inline constexpr char kKeptBytesVariable[] = "XLA_FFI_KIT_KEPT_BYTES";
inline constexpr char kKeptCountVariable[] = "XLA_FFI_KIT_KEPT_COUNT";

template <typename T>
class Kept;

// Hidden: types of one name in two libraries need not be the same.
#pragma GCC visibility push(hidden)
namespace kept_internal {

inline int64_t ToLimit(const char* value, int64_t otherwise) {
  const int64_t limit = value == nullptr ? 0 : std::strtoll(value, nullptr, 10);
  return limit < 1 ? otherwise : limit;
}
inline const int64_t kMostBytes =
    ToLimit(std::getenv(kKeptBytesVariable), int64_t{256} << 20);
inline const int64_t kMostObjects =
    ToLimit(std::getenv(kKeptCountVariable), 4096);

// Its address stands for a type.
template <typename T>
inline char type_tag = 0;

struct Span {
  const void* data = nullptr;
  size_t bytes = 0;
};

// What one argument adds to a key: its type and sizes, and its content.
struct Part {
  const void* type = nullptr;
  uint64_t size = 0;  // of an array without axes; a buffer's dtype
  Span sizes, content;
};

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double>;
// A std::complex of a float.
template <typename T, typename = void>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool
    kIsComplex<T, std::void_t<typename T::value_type,
                              decltype(std::declval<const T&>().imag())>> =
        kIsFloat<typename T::value_type> &&
        sizeof(T) == 2 * sizeof(typename T::value_type);
template <typename T>
constexpr bool kIsBytes =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
    (std::has_unique_object_representations_v<T> || kIsFloat<T> ||
     kIsComplex<T>);
template <typename T>
constexpr bool kIsKept = false;
template <typename T>
constexpr bool kIsKept<Kept<T>> = true;
template <typename T, typename = void>
constexpr bool kHasData = false;
template <typename T>
constexpr bool
    kHasData<T, std::void_t<decltype(std::declval<const T&>().data(),
                                     std::declval<const T&>().size())>> = true;
template <typename T, typename = void>
constexpr bool kHasDims = false;
template <typename T>
constexpr bool
    kHasDims<T, std::void_t<decltype(std::declval<const T&>().dims(),
                                     std::declval<const T&>().rank())>> = true;
// A buffer of xla/ffi/api/ffi.h.
template <typename T, typename = void>
constexpr bool kIsBuffer = false;
template <typename T>
constexpr bool
    kIsBuffer<T, std::void_t<decltype(std::declval<const T&>().untyped_data(),
                                      std::declval<const T&>().size_bytes())>> =
        true;

// Fills `part`, which must not move.
template <typename T>
void Describe(const T& value, Part& part) {
  part.type = &type_tag<T>;
  if constexpr (kIsKept<T>) {
    part.content = value.key();
  } else if constexpr (kIsBuffer<T>) {
    const auto dims = value.dimensions();
    part.sizes = {dims.begin(), dims.size() * sizeof(*dims.begin())};
    part.size = static_cast<uint64_t>(value.element_type());
    part.content = {value.untyped_data(), value.size_bytes()};
  } else if constexpr (kHasData<T>) {
    using Element = std::decay_t<decltype(*value.data())>;
    static_assert(kIsBytes<Element>,
                  "a kept object is made of bytes: the elements of a key's "
                  "array are numbers, and no pointers, nor numbers with slopes "
                  "as in derivatives=\"kernel\"");
    if constexpr (kHasDims<T>) {
      part.sizes = {value.dims(), value.rank() * sizeof(*value.dims())};
    }
    part.size = value.size();
    part.content = {value.data(), value.size() * sizeof(Element)};
  } else {
    static_assert(kIsBytes<T>,
                  "a kept object is made of bytes: its key has numbers, texts "
                  "(std::string_view), arrays and kept objects, and no "
                  "pointers");
    part.content = {&value, sizeof(value)};
  }
}

inline uint64_t Mixed(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// A hash at the memory's speed; equality is that of the bytes.
inline uint64_t Hash(Span span, uint64_t seed) {
  constexpr uint64_t kOdd[] = {0x9e3779b97f4a7c15, 0xd1b54a32d192ed03};
  const auto* at = static_cast<const char*>(span.data);
  size_t left = span.bytes;
  uint64_t lanes[] = {seed ^ left, seed + kOdd[0]};
  uint64_t words[4];
  for (; left >= sizeof(words); at += sizeof(words), left -= sizeof(words)) {
    std::memcpy(words, at, sizeof(words));
    lanes[0] = Mixed(lanes[0] ^ words[0], words[1] ^ kOdd[0]);
    lanes[1] = Mixed(lanes[1] ^ words[2], words[3] ^ kOdd[1]);
  }
  std::memset(words, 0, sizeof(words));
  if (left > 0) std::memcpy(words, at, left);
  lanes[0] = Mixed(lanes[0] ^ words[0], words[1] ^ kOdd[0]);
  lanes[1] = Mixed(lanes[1] ^ words[2], words[3] ^ kOdd[1]);
  return Mixed(lanes[0] ^ kOdd[1], lanes[1] ^ kOdd[0]);
}

// The key of a call: its bytes lie where the caller has them.
template <size_t kParts>
class Key {
 public:
  template <typename... Arguments>
  explicit Key(const void* type, const Arguments&... arguments) : type_(type) {
    size_t i = 0;
    (Describe(arguments, parts_[i++]), ...);
    for (size_t k = 0; k < kParts; ++k) {
      const Part& part = parts_[k];
      heads_[k] = {reinterpret_cast<uintptr_t>(part.type), part.size,
                   part.sizes.bytes, part.content.bytes};
      spans_[3 * k] = {&heads_[k], sizeof(heads_[k])};
      spans_[3 * k + 1] = part.sizes;
      spans_[3 * k + 2] = part.content;
    }
    spans_[3 * kParts] = {&type_, sizeof(type_)};
  }
  Key(const Key&) = delete;

  uint64_t hash() const {
    uint64_t hash = 0;
    for (const Span& span : spans_) hash = Hash(span, hash);
    return hash;
  }
  bool Is(const std::string& bytes) const {
    size_t at = 0;
    for (const Span& span : spans_) {
      if (bytes.size() - at < span.bytes) return false;
      if (span.bytes > 0 &&
          std::memcmp(bytes.data() + at, span.data, span.bytes) != 0) {
        return false;
      }
      at += span.bytes;
    }
    return at == bytes.size();
  }
  size_t size() const {
    size_t size = 0;
    for (const Span& span : spans_) size += span.bytes;
    return size;
  }
  std::string bytes() const {
    std::string bytes;
    bytes.reserve(size());
    for (const Span& span : spans_) {
      if (span.bytes > 0) {
        bytes.append(static_cast<const char*>(span.data), span.bytes);
      }
    }
    return bytes;
  }

 private:
  const void* const type_;
  std::array<Part, kParts> parts_;
  std::array<std::array<uint64_t, 4>, kParts> heads_;
  std::array<Span, 3 * kParts + 1> spans_;
};

struct Entry {
  std::string key;
  uint64_t hash = 0;
  std::thread::id maker;
  // Guarded by the mutex of the store, until `object` is there.
  std::shared_ptr<const void> object;
  bool failed = false, is_listed = false;
  int64_t bytes = 0;
  std::list<std::shared_ptr<Entry>>::iterator place;  // if it is listed
};

// The objects of a library.
class Store {
 public:
  static Store& Get() {
    static Store* const store = new Store;  // threads may outlive static data
    return *store;
  }

  // The entry of a key, with its object: `make` returns that, and its bytes.
  template <typename K, typename Make>
  std::shared_ptr<Entry> Find(const K& key, const Make& make) {
    const uint64_t hash = key.hash();
    std::vector<std::shared_ptr<Entry>> others;  // of the same hash
    std::unique_lock<std::mutex> lock(mutex_);
    while (std::shared_ptr<Entry> entry = Next(hash, others)) {
      lock.unlock();  // keys may be long, and do not change
      const bool is_it = key.Is(entry->key);
      lock.lock();
      if (!is_it) {
        others.push_back(std::move(entry));
      } else if (Await(*entry, lock)) {
        return entry;
      }
    }
    auto entry = std::make_shared<Entry>();
    entry->hash = hash;
    entry->maker = std::this_thread::get_id();
    entry->key = key.bytes();
    by_hash_.emplace(hash, entry);
    lock.unlock();
    Making making(*this, entry);
    auto [object, bytes] = make();
    making.Finish(std::move(object), bytes);
    return entry;
  }

  // Counts more bytes of an entry.
  void Add(Entry& entry, int64_t bytes) {
    std::list<std::shared_ptr<Entry>> dropped;  // freed without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!entry.is_listed) return;
    entry.bytes += bytes;
    bytes_ += bytes;
    Drop(dropped);
  }

 private:
  // Takes an entry back if its object cannot be made.
  class Making {
   public:
    Making(Store& store, std::shared_ptr<Entry> entry)
        : store_(store), entry_(std::move(entry)) {}
    Making(const Making&) = delete;
    ~Making() {
      if (entry_ == nullptr) return;
      const std::lock_guard<std::mutex> lock(store_.mutex_);
      entry_->failed = true;
      store_.Forget(*entry_);
      store_.changed_.notify_all();
    }
    void Finish(std::shared_ptr<const void> object, int64_t bytes) {
      std::list<std::shared_ptr<Entry>> dropped;
      const std::lock_guard<std::mutex> lock(store_.mutex_);
      entry_->object = std::move(object);
      entry_->bytes = bytes + static_cast<int64_t>(entry_->key.size());
      store_.bytes_ += entry_->bytes;
      entry_->is_listed = true;
      store_.recent_.push_front(entry_);
      entry_->place = store_.recent_.begin();
      store_.Drop(dropped);
      store_.changed_.notify_all();
      entry_ = nullptr;
    }

   private:
    Store& store_;
    std::shared_ptr<Entry> entry_;
  };

  // An entry of a hash that is none of `others`.
  std::shared_ptr<Entry> Next(
      uint64_t hash, const std::vector<std::shared_ptr<Entry>>& others) const {
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      bool is_new = true;
      for (const auto& other : others) is_new &= other != at->second;
      if (is_new) return at->second;
    }
    return nullptr;
  }

  // Waits for the object; false if it could not be made.
  bool Await(Entry& entry, std::unique_lock<std::mutex>& lock) {
    const auto self = std::this_thread::get_id();
    // The maker may wait for another thread, and so on.
    for (const Entry* last = &entry; IsInTheMaking(*last);) {
      if (last->maker == self) {
        throw std::logic_error("a kept object needs itself to be made");
      }
      const auto next = waiting_.find(last->maker);
      if (next == waiting_.end()) break;
      last = next->second;
    }
    if (IsInTheMaking(entry)) {
      waiting_[self] = &entry;
      changed_.wait(lock, [&entry] { return !IsInTheMaking(entry); });
      waiting_.erase(self);
    }
    if (entry.is_listed) {
      recent_.splice(recent_.begin(), recent_, entry.place);
    }
    return !entry.failed;
  }

  static bool IsInTheMaking(const Entry& entry) {
    return entry.object == nullptr && !entry.failed;
  }

  void Forget(const Entry& entry) {
    const auto [begin, end] = by_hash_.equal_range(entry.hash);
    for (auto at = begin; at != end; ++at) {
      if (at->second.get() == &entry) {
        by_hash_.erase(at);
        return;
      }
    }
  }

  // Moves what is too much to `dropped`, except for the entry used last.
  void Drop(std::list<std::shared_ptr<Entry>>& dropped) {
    while (recent_.size() > 1 &&
           (bytes_ > kMostBytes ||
            static_cast<int64_t>(recent_.size()) > kMostObjects)) {
      Entry& last = *recent_.back();
      bytes_ -= last.bytes;
      last.is_listed = false;
      Forget(last);
      dropped.splice(dropped.end(), recent_, std::prev(recent_.end()));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;           // an object is there, or failed
  std::list<std::shared_ptr<Entry>> recent_;  // the one used last comes first
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> by_hash_;
  // What each thread waits for.
  std::unordered_map<std::thread::id, const Entry*> waiting_;
  int64_t bytes_ = 0;
};

template <typename T, typename = void>
constexpr bool kSaysBytes = false;
template <typename T>
constexpr bool
    kSaysBytes<T, std::void_t<decltype(std::declval<const T&>().bytes())>> =
        true;

// The size of an object that is made of so many bytes.
template <typename T>
int64_t SizeOf(const T& object, size_t key) {
  if constexpr (kSaysBytes<T>) {
    return static_cast<int64_t>(object.bytes());
  } else {
    return static_cast<int64_t>(sizeof(T) + key);
  }
}

// The objects of a PerThread that no thread has.
template <typename T>
struct Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<T>> objects;
};

}  // namespace kept_internal
#pragma GCC visibility pop

// An object that all calls with the same key share, which is why it is const;
// see the top of the file.
template <typename T>
class __attribute__((visibility("hidden"))) Kept {
 public:
  // Finds T(key...), or makes it. Threads that want the same object at the same
  // time wait for the one that makes it. What T's constructor throws goes to
  // the caller, and the next call tries again. std::logic_error if T's
  // constructor asks for the object that it makes.
  template <typename... Parts>
  explicit Kept(const Parts&... key) {
    const kept_internal::Key<sizeof...(Parts)> bytes(
        &kept_internal::type_tag<T>, key...);
    entry_ = kept_internal::Store::Get().Find(bytes, [&] {
      auto object = std::make_shared<const T>(key...);
      const int64_t size = kept_internal::SizeOf(*object, bytes.size());
      return std::pair(std::shared_ptr<const void>(std::move(object)), size);
    });
  }
  Kept(const Kept&) = default;
  Kept& operator=(const Kept&) = default;

  const T& operator*() const { return *get(); }
  const T* operator->() const { return get(); }
  const T* get() const { return static_cast<const T*>(entry_->object.get()); }

  kept_internal::Span key() const {
    return {entry_->key.data(), entry_->key.size()};
  }

 private:
  std::shared_ptr<kept_internal::Entry> entry_;
};

// An object that one thread at a time has, and may change: what a library needs
// to work in. There are as many T(key...) as threads have had one at the same
// time, and each comes as its last user left it. They are kept as the objects
// of Kept are, and count once more for each.
template <typename T>
class __attribute__((visibility("hidden"))) PerThread {
 public:
  template <typename... Parts>
  explicit PerThread(const Parts&... key) {
    using kept_internal::Store;
    const kept_internal::Key<sizeof...(Parts)> bytes(
        &kept_internal::type_tag<PerThread<T>>, key...);
    entry_ = Store::Get().Find(bytes, [] {
      return std::pair(std::shared_ptr<const void>(std::make_shared<Idle>()),
                       int64_t{0});
    });
    {
      const std::lock_guard<std::mutex> lock(idle().mutex);
      if (!idle().objects.empty()) {
        object_ = std::move(idle().objects.back());
        idle().objects.pop_back();
        return;
      }
    }
    object_ = std::make_unique<T>(key...);
    Store::Get().Add(*entry_,
                     kept_internal::SizeOf(*object_, entry_->key.size()));
  }
  ~PerThread() {
    const std::lock_guard<std::mutex> lock(idle().mutex);
    idle().objects.push_back(std::move(object_));
  }
  PerThread(const PerThread&) = delete;

  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }
  T* get() const { return object_.get(); }

 private:
  using Idle = kept_internal::Idle<T>;
  Idle& idle() const {  // made as one that is not const
    return *static_cast<Idle*>(const_cast<void*>(entry_->object.get()));
  }

  std::shared_ptr<kept_internal::Entry> entry_;
  std::unique_ptr<T> object_;
};

}  // namespace xla_ffi_kit

namespace kit {
using xla_ffi_kit::Kept;
using xla_ffi_kit::PerThread;
}  // namespace kit

#endif  // XLA_FFI_CORE_KEPT_H_
