// Reverse mode: what the numbers of var.h record.
//
// An assignment is a statement of the tape: the numbers that stand on its
// right, and the slope towards each. Going back from the last statement to the
// first adds up, for each number, the slope of the results towards it.
//
// Source: A. Griewank, A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
// chapters 3 and 4 (statement-level preaccumulation).

#ifndef XLA_FFI_STRINGS_DERIVE_TAPE_H_
#define XLA_FFI_STRINGS_DERIVE_TAPE_H_

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>

#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/strings/derive/numbers.h"

namespace kit {

// Most bytes of the tape of a thread, which has one row at a time, or those of
// a group in lanes.
inline constexpr size_t kTapeBytes = size_t{1} << 30;
inline constexpr char kTapeVariable[] = "XLA_FFI_KIT_TAPE_BYTES";
// Bytes of tapes that a process keeps for later calls.
inline constexpr size_t kKeptBytes = size_t{1} << 27;

}  // namespace kit

// Blocks of memory that later calls take again, of this library or of another
// one. Their layout is the same in all of them, and a change of it takes
// another name.
struct XlaFfiKit_Tapes {
  static constexpr int kMost = 128;

  std::atomic_flag is_taken = ATOMIC_FLAG_INIT;
  int count = 0;
  size_t bytes = 0;
  struct {
    void* data;
    size_t size;
  } blocks[kMost] = {};
};

extern "C" {
// The pool of this library, until Python lets it share the one of all libraries
// of the process.
__attribute__((
    visibility("default"))) inline XlaFfiKit_Tapes XlaFfiKit_own_tapes;
__attribute__((visibility("default"))) inline std::atomic<XlaFfiKit_Tapes*>
    XlaFfiKit_tapes = &XlaFfiKit_own_tapes;
}

namespace kit {

// Takes the smallest block of at least so many bytes from the pool, or gives
// one to it, for which those that are there longest go; false if that cannot
// be. A thread that would wait goes on without the pool.
class PoolOfTapes {
 public:
  PoolOfTapes()
      : pool_(*XlaFfiKit_tapes.load(std::memory_order_acquire)),
        is_mine_(!pool_.is_taken.test_and_set(std::memory_order_acquire)) {}
  PoolOfTapes(const PoolOfTapes&) = delete;
  PoolOfTapes& operator=(const PoolOfTapes&) = delete;
  ~PoolOfTapes() {
    if (is_mine_) pool_.is_taken.clear(std::memory_order_release);
  }

  bool Take(size_t bytes, void** data, size_t* size) {
    if (!is_mine_) return false;
    int best = -1;
    for (int i = 0; i < pool_.count; ++i) {
      const size_t has = pool_.blocks[i].size;
      if (has < bytes) continue;
      if (best < 0 || has < pool_.blocks[best].size) best = i;
    }
    if (best < 0) return false;
    *data = pool_.blocks[best].data;
    *size = pool_.blocks[best].size;
    Remove(best);
    return true;
  }
  bool Give(void* data, size_t size) {
    if (!is_mine_ || size > kKeptBytes) return false;
    while (pool_.count == XlaFfiKit_Tapes::kMost ||
           pool_.bytes + size > kKeptBytes) {
      munmap(pool_.blocks[0].data, pool_.blocks[0].size);
      Remove(0);
    }
    pool_.blocks[pool_.count++] = {data, size};
    pool_.bytes += size;
    return true;
  }

 private:
  void Remove(int i) {
    pool_.bytes -= pool_.blocks[i].size;
    for (--pool_.count; i < pool_.count; ++i) {
      pool_.blocks[i] = pool_.blocks[i + 1];
    }
  }

  XlaFfiKit_Tapes& pool_;
  const bool is_mine_;
};

// What a thread has for one call: its tapes and rows of numbers, of any type.
// At the end of the call all of it is given back. Each operation is a library
// of its own; what they kept would add up, for every thread.
class OfCall {
 public:
  // Gives all of the thread's back at its end.
  struct Scope {
    Scope() = default;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      for (; first_ != nullptr; first_ = first_->next_) {
        first_->is_listed_ = false;
        first_->Free();
      }
    }
  };

 protected:
  OfCall() = default;
  ~OfCall() = default;
  void List() {
    if (is_listed_) return;
    is_listed_ = true;
    next_ = first_;
    first_ = this;
  }
  virtual void Free() = 0;

 private:
  static inline thread_local OfCall* first_ = nullptr;
  OfCall* next_ = nullptr;
  bool is_listed_ = false;
};

// Memory for any number. Large blocks come from the pool and go back to it, or
// to the system at once, where malloc would keep some for each thread.
class Block {
 public:
  static constexpr size_t kAlign = 64, kLarge = size_t{1} << 12;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { Free(); }

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // Of at least so many bytes; null if there is no memory.
  char* Allocate(size_t bytes) {
    Free();
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    void* made = nullptr;
    if (bytes < kLarge) {
      made = std::aligned_alloc(kAlign, bytes);
    } else if (!PoolOfTapes().Take(bytes, &made, &bytes)) {
      made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (made == MAP_FAILED) made = nullptr;
      if (made != nullptr) xla_ffi_kit::AdviseHugePages(made, bytes);
    }
    if (made != nullptr) data_ = static_cast<char*>(made), size_ = bytes;
    return data_;
  }
  void Free() {
    if (size_ < kLarge) {
      std::free(data_);
    } else if (!PoolOfTapes().Give(data_, size_)) {
      munmap(data_, size_);
    }
    data_ = nullptr;
    size_ = 0;
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

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

// What the steps of kit::scan leave for going back, as jet.h writes it: a
// stack. It grows where a scan begins, which knows how many steps there will
// be.
class Steps {
 public:
  // What ends a row that has to run once more.
  struct Again {};

  // Forgets all.
  void Begin() {
    top_ = block().data();
    is_in_step_ = is_used_ = has_failed_ = false;
  }
  // Whether the row has to run once more, also if its code caught what was
  // thrown.
  bool HaveFailed() const { return has_failed_; }
  // Whether a scan is a loop whose numbers are on the tape: another scan's step
  // runs, or the row has a step that jets cannot follow.
  bool AreLoops() const { return are_loops_ || is_in_step_; }
  void SetLoops(bool are_loops) { are_loops_ = are_loops; }
  bool AreUsed() const { return is_used_; }

  // Begins a scan, whose steps have slots for what they read from `first` on,
  // at most so many. `is_wide` is told if there are too few, and null if more
  // are not to be had. Then there are the bytes for `count` steps, with one row
  // of slopes or more beside those of the states; false if that is more than
  // `most_bytes`, or there is no memory.
  bool BeginScan(int first, int most, std::atomic<bool>* is_wide, size_t count,
                 size_t of_step, size_t of_row, size_t most_bytes) {
    is_in_step_ = is_used_ = true;
    first_ = first;
    most_ = most;
    is_wide_ = is_wide;
    const size_t used = top_ - block().data();
    size_t size = used + (count + 1) * (of_step + rows_each_ * of_row) + 4096;
    if (size <= block().size()) return true;
    if (size < 2 * block().size()) size = 2 * block().size();
    if (size > most_bytes || other().Allocate(size) == nullptr) return false;
    if (used != 0) std::memcpy(other().data(), block().data(), used);
    block().Free();
    which_ = 1 - which_;
    top_ = block().data() + used;
    end_ = block().data() + block().size();
    return true;
  }
  void EndScan() { is_in_step_ = false; }

  // The reads of a step: how many, and the ids of the numbers. Those from
  // `begin` on are the step's own.
  KIT_NUMBER_INLINE void BeginStep(size_t begin, int most) {
    begin_ = begin;
    // An even number, so that what follows is aligned.
    reads_ = reinterpret_cast<uint32_t*>(Extend(BytesOfReads(most)));
    reads_[0] = 0;
  }
  // The slot of a number that the step reads.
  KIT_NUMBER_INLINE int SlotOf(uint32_t id) {
    const int count = static_cast<int>(reads_[0]);
    for (int i = 0; i < count; ++i) {
      if (reads_[i + 1] == id) return first_ + i;
    }
    if (__builtin_expect(count == most_ || id >= begin_, 0)) Misfit(id);
    reads_[count + 1] = id;
    reads_[0] = count + 1;
    return first_ + count;
  }

  static constexpr size_t BytesOfReads(int most) {
    return (most + 2) / 2 * 2 * sizeof(uint32_t);
  }

  // Room for so many more, which are written at once.
  template <typename X>
  KIT_NUMBER_INLINE X* Push(size_t count = 1) {
    return reinterpret_cast<X*>(Extend(count * sizeof(X)));
  }
  // The last `count` of what was pushed, which is there until the next push.
  template <typename X>
  KIT_NUMBER_INLINE const X* Pop(size_t count = 1) {
    top_ -= count * sizeof(X);
    return reinterpret_cast<const X*>(top_);
  }

  void Free() {
    block().Free();
    top_ = end_ = nullptr;
  }

 private:
  Block& block() { return blocks_[which_]; }
  Block& other() { return blocks_[1 - which_]; }

  // These do not return, so that the compiler keeps a step's numbers in
  // registers.
  [[noreturn]] __attribute__((cold, noinline)) void Misfit(uint32_t id) {
    if (id < begin_ && is_wide_ != nullptr) {
      is_wide_->store(true, std::memory_order_relaxed);
    } else {
      are_loops_ = true;
    }
    has_failed_ = true;
    throw Again();
  }
  [[noreturn]] __attribute__((cold, noinline)) void Full() {
    rows_each_ *= 2;
    has_failed_ = true;
    throw Again();
  }
  KIT_NUMBER_INLINE char* Extend(size_t bytes) {
    char* const at = top_;
    if (__builtin_expect(at + bytes > end_, 0)) Full();
    top_ = at + bytes;
    return at;
  }

  char *top_ = nullptr, *end_ = nullptr;
  uint32_t* reads_ = nullptr;
  std::atomic<bool>* is_wide_ = nullptr;
  size_t begin_ = 0, rows_each_ = 1;
  Block blocks_[2];
  int which_ = 0, first_ = 0, most_ = 0;
  bool is_in_step_ = false, is_used_ = false, are_loops_ = false;
  bool has_failed_ = false;
};

// Rows of numbers, one behind the other.
template <typename Number>
class Cells : public OfCall {
 public:
  // So many zeros.
  Number* Assign(size_t count) {
    List();
    const size_t bytes = count * sizeof(Number);
    if (bytes > block_.size() && block_.Allocate(bytes) == nullptr) {
      throw std::bad_alloc();
    }
    // The bytes of any number that is 0.
    if (bytes != 0) std::memset(block_.data(), 0, bytes);
    return reinterpret_cast<Number*>(block_.data());
  }

 private:
  void Free() override { block_.Free(); }

  Block block_;
};

// The rows that a scalar has numbers of, and what a tape keeps of its slopes.
template <typename S>
inline constexpr int kRowsOf = 1;
template <typename S>
struct SlopeOf {
  using type = S;
  KIT_NUMBER_INLINE static const S& From(const S& slope) { return slope; }
};

// In an id on a tape of lanes: the number is chosen in some rows. In the others
// the slope towards it is 0, and it takes nothing from there.
inline constexpr uint32_t kChoice = uint32_t{1} << 31;
template <typename S>
inline constexpr bool kHasChoices = kIsInLanes<S>;

// Makes `y` zero where `x` is.
template <typename S>
void ClearWhereZero(const S& x, S& y) {
  if (x == 0) y = S();
}

// The statements that a thread has recorded, one after the other: an entry for
// each number on the right, with its slope and its id, and then one that is the
// statement's own, with the slope of the results towards it, which the sweep
// adds up, and where it begins. The place of the latter is its id. Entry 0 is
// every constant, and those behind it are the inputs.
template <typename S>
class Tape : public OfCall {
  using Slope = typename SlopeOf<S>::type;

 public:
  // The tape of this thread, which is the current one until the next call.
  static Tape& OfThread() {
    static thread_local Tape tape;
    tape.List();
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

  // Forgets all statements; the first `inputs` numbers are inputs.
  void Begin(size_t inputs) {
    inputs_ = inputs + 1;
    if (inputs_ + needed_ > limit_) Resize();
    is_again_ = false;
    lost_ = 0;
    next_ = inputs_;
    steps.Begin();
    for (size_t i = 0; i < inputs_; ++i) At(i) = Slope();
  }

  // Whether all statements are there. If not, begin again, and there is room.
  bool IsWhole() {
    needed_ = lost_ + (next_ - inputs_);
    is_again_ = lost_ != 0;
    return !is_again_;
  }

  // Records a number with some parts; returns its id, 0 if it has none.
  template <typename W, int... i>
  KIT_NUMBER_INLINE uint32_t Record(const W* slopes, const uint32_t* ids,
                                    for_each_internal::Indices<i...>) {
    static_assert(sizeof...(i) < kRoom);
    const size_t begin = Next();
    size_t at = begin;
    (Put(&at, SlopeOf<S>::From(ScalarAs<S>(slopes[i])), ids[i]), ...);
    if (at == begin) return 0;
    At(at) = Slope();
    Id(at) = static_cast<uint32_t>(begin);
    next_ = at + 1;
    return static_cast<uint32_t>(at);
  }

  // An entry that is no statement, as it begins where it is, or behind that.
  KIT_NUMBER_INLINE uint32_t Mark(uint32_t behind, const S& slope = S()) {
    const size_t at = Next();
    At(at) = slope;
    Id(at) = static_cast<uint32_t>(at + behind);
    next_ = at + 1;
    return static_cast<uint32_t>(at);
  }
  // What goes back from such an entry: it returns where the entries begin that
  // it knows. A pointer to it was pushed last.
  using SweepFrom = size_t (*)(Tape&, size_t at);
  // Steps::BeginScan(); an error if there is no room.
  void BeginScan(int first, int most, std::atomic<bool>* is_wide, size_t count,
                 size_t of_step, size_t of_row) {
    if (!steps.BeginScan(first, most, is_wide, count, of_step, of_row, most_)) {
      throw Error("needs more than", most_);
    }
  }
  size_t size() const { return next_; }
  size_t BeginOf(size_t own) const { return Id(own); }

  // The slope of the results towards a number.
  void AddSlope(uint32_t id, const S& slope) {
    At(id) += SlopeOf<S>::From(slope);
  }
  Slope SlopeAt(uint32_t id) const { return At(id); }

  void Sweep() {
    for (size_t end = next_; end > inputs_;) {
      const size_t own = end - 1;
      const Slope slope = At(own);
      const size_t begin = end = Id(own);
      if constexpr (std::is_arithmetic_v<Slope>) {
        if (slope == 0) continue;
      }
      if constexpr (std::is_floating_point_v<S>) {
        if (__builtin_expect(begin == own, 0)) {
          end = (*steps.Pop<SweepFrom>())(*this, own);
          continue;
        }
      }
      SweepStatement(begin, own, slope);
    }
  }

  // Goes back over a statement with that slope, from the entry that is its own.
  KIT_NUMBER_INLINE void SweepStatement(size_t k, size_t own,
                                        const Slope& slope) {
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

  Cells<Var<S>> cells;  // the arrays of a row
  Steps steps;

 private:
  // Whether slope and id of an entry are neighbors, which a CPU stores faster
  // than to two arrays; not where that takes padding.
  static constexpr bool kPacked =
      kRowsOf<Slope> == 1 && alignof(Slope) == alignof(uint32_t);
  static constexpr size_t kStep =
      sizeof(Slope) + (kPacked ? sizeof(uint32_t) : 0);

  // Where the next entry is. A full tape grows later: a call from here would
  // make the compiler load all members again behind each statement.
  KIT_NUMBER_INLINE size_t Next() {
    const size_t next = next_;
    if (__builtin_expect(next < limit_, 1)) return next;
    lost_ += next - inputs_;
    return inputs_;
  }

  Slope& At(size_t at) const {
    return *reinterpret_cast<Slope*>(slopes_ + at * kStep);
  }
  uint32_t& Id(size_t at) const {
    if constexpr (kPacked) {
      return *reinterpret_cast<uint32_t*>(slopes_ + at * kStep + sizeof(Slope));
    } else {
      return reinterpret_cast<uint32_t*>(ids_)[at];
    }
  }
  KIT_NUMBER_INLINE void Put(size_t* at, const Slope& slope, uint32_t id) {
    At(*at) = slope;
    Id(*at) = id;
    *at += id != 0;
  }
  // Adds to a number's slope what it gets of a statement. There is one sum, so
  // that compilers fuse it with the product for one row as for several: a row
  // has the same bits among any.
  KIT_NUMBER_INLINE void AddPart(size_t k, const Slope& slope) {
    const uint32_t id = Id(k);
    Slope part = At(k), from = slope;
    if constexpr (kHasChoices<S>) {
      if ((id & kChoice) != 0) {
        ClearWhereZero(part, from);
        if constexpr (kIsNumber<Slope>) {
          At(id & kIdBits) += value(part) * from;
          return;
        }
      } else if constexpr (!kIsNumber<Slope>) {
        ClearWhereZero(from, part);
      }
    }
    if constexpr (kIsNumber<Slope>) {
      At(id & kIdBits) += Times(part, from);
    } else {
      At(id & kIdBits) += part * from;
    }
  }

  static constexpr uint32_t kIdBits = kHasChoices<S> ? ~kChoice : ~uint32_t{0};
  // Entries behind the limit: any statement fits there.
  static constexpr size_t kRoom = 16;

  static TapeError Error(const char* why, size_t bytes) {
    return TapeError(kRowsOf<S>, why, bytes);
  }

  // To what is needed, and some more.
  __attribute__((cold, noinline)) void Resize() {
    size_t used = inputs_ + needed_;
    size_t most = most_ / (sizeof(Slope) + sizeof(uint32_t));
    if (most > kChoice - 1) most = kChoice - 1;
    // Of another row it is a guess.
    if (used + kRoom >= most && !is_again_) used = inputs_;
    is_again_ = false;
    if (used + kRoom >= most) throw Error("needs more than", most_);
    const size_t wanted = used + used / 4 + 4096;
    const size_t size = wanted < most ? wanted : most;
    Free();
    slopes_ = Allocate(&slope_block_, size * kStep);
    if (!kPacked) ids_ = Allocate(&id_block_, size * sizeof(uint32_t));
    limit_ = size - kRoom;
  }
  char* Allocate(Block* block, size_t bytes) const {
    static_assert(alignof(S) <= Block::kAlign);
    char* const made = block->Allocate(bytes);
    if (made == nullptr) throw Error("gets no", bytes);
    return made;
  }
  void Free() override {
    slope_block_.Free();
    id_block_.Free();
    steps.Free();
    slopes_ = ids_ = nullptr;
    limit_ = 0;
  }

  // Pointers and sizes are of types that no store of an entry can change, so
  // that the compiler keeps them in registers from one statement to the next.
  size_t next_ = 0, limit_ = 0, inputs_ = 0, lost_ = 0;
  char* slopes_ = nullptr;
  char* ids_ = nullptr;
  Block slope_block_, id_block_;
  size_t needed_ = 0, most_ = kTapeBytes;
  bool is_again_ = false;
};
template <typename S>
__thread Tape<S>* Tape<S>::current;

}  // namespace kit

#endif  // XLA_FFI_STRINGS_DERIVE_TAPE_H_
