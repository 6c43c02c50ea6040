#include "xla_ffi/testing/cuda/emulator.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xla_ffi/testing/cuda/fiber.h"

namespace xla_ffi_kit {
namespace {

constexpr int64_t kMostShared = 227 * 1024;

uint4 Zero() { return {}; }

}  // namespace

// The initial value is not a constant, because gcc 12 calls a function that
// initializes a thread's variable even if there is none.
thread_local uint4 dynamic[kMostShared / sizeof(uint4)] = {Zero()};

namespace testing {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kFresh = 0xff;   // bytes of shared memory: a NaN of every type
constexpr int kBeyond = 0xa5;  // bytes that are not the block's

bool Fail(const std::string& why) {
  std::cerr << "CUDA emulator: " << why << std::endl;
  return false;
}

// The asynchronous copies of one thread. A copy happens as late as it may: when
// the thread waits for its group. Until then its destination holds NaNs, so
// that whoever does not wait sees them.
class AsyncCopies {
 public:
  void Clear() {
    copies_.clear();
    groups_ = 0;
  }
  void Begin(void* to, const void* from, size_t bytes) {
    std::memset(to, 0xff, bytes);
    copies_.push_back({to, from, bytes, groups_});
  }
  // Makes a group of the copies that have begun since the last call.
  void Commit() { ++groups_; }
  // All groups but the last `prior` are done.
  void Wait(size_t prior) {
    size_t left = 0;
    for (const Copy& copy : copies_) {
      if (copy.group + prior < groups_) {
        std::memcpy(copy.to, copy.from, copy.bytes);
      } else {
        copies_[left++] = copy;
      }
    }
    copies_.resize(left);
  }
  bool AreDone() const { return copies_.empty(); }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    uint64_t group;
  };
  std::vector<Copy> copies_;
  uint64_t groups_ = 0;  // that are committed
};

// The blocks of a cluster, each on a thread of the CPU.
class Cluster {
 public:
  explicit Cluster(int64_t blocks)
      : blocks_(blocks), shared_(static_cast<size_t>(blocks)) {}

  // The thread's block is the one of `rank`.
  void Enter(unsigned rank) {
    shared_[rank] = static_cast<char*>(__builtin_thread_pointer());
  }
  void* SharedOfRank(const void* p, unsigned rank) {
    const auto* shared = static_cast<char*>(__builtin_thread_pointer());
    return shared_.at(rank) + (static_cast<const char*>(p) - shared);
  }

  void Arrive() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++arrived_ == blocks_) {
      arrived_ = 0;
      ++rounds_;
      changed_.notify_all();
    }
  }
  // How often all blocks have arrived.
  uint64_t Rounds() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rounds_;
  }
  // Until all blocks have arrived so often; false if one ends before.
  bool Wait(uint64_t rounds) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return rounds_ >= rounds || ended_ > 0; });
    return rounds_ >= rounds;
  }
  // All blocks end here together, so that their shared memory lives as long.
  void End() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t generation = generation_;
    if (++ended_ == blocks_) {
      arrived_ = ended_ = 0;
      rounds_ = 0;
      ++generation_;
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return generation_ != generation; });
  }

 private:
  const int64_t blocks_;
  std::vector<char*> shared_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t arrived_ = 0, ended_ = 0;
  uint64_t rounds_ = 0, generation_ = 0;
};

// A point at which a number of threads wait for each other.
struct Barrier {
  int arrived = 0;
  uint64_t round = 0;
};

struct Lane {
  Location location;
  Fiber fiber;
  int exchanges = 0;                 // that it took part in
  uint64_t cluster_rounds = 0;       // in which it arrived
  bool has_arrived = false;          // there, and has not waited yet
  bool looked_at_others = false;     // has used their memory since it arrived
  const Barrier* barrier = nullptr;  // where it waits, or waited last ...
  uint64_t round = 0;                // ... for this round to end
  AsyncCopies copies;
  bool waited_for_grid = false;  // before this one
  const void* place = nullptr;   // of its call of ActiveMask()
  unsigned active = 0;           // the answer
};

struct Warp {
  Barrier barrier;
  std::map<unsigned, Barrier> of_lanes;  // by their mask
  // Where lanes wait for the answer of ActiveMask(). No round of it ends:
  // AnswerActive() lets them go on.
  Barrier active;
  unsigned asking = 0;  // lanes that want to know who is where they are
  // Values of this exchange and the next one, because a lane may be one ahead.
  uint64_t bits[2][kWarp];
  int lane_masks[2][kWarp];
};

// A block, on one thread of the CPU.
class Block {
 public:
  Block(const Grid& grid, const std::function<void()>& body, Cluster* cluster)
      : grid_(grid), body_(body), cluster_(cluster) {
    // The next launch has use for them, too.
    thread_local std::vector<std::unique_ptr<Lane>> lanes;
    while (static_cast<int64_t>(lanes.size()) < grid.threads) {
      lanes.push_back(std::make_unique<Lane>());
    }
    for (int64_t i = 0; i < grid.threads; ++i) lanes_.push_back(&*lanes[i]);
  }

  bool Run(int64_t block, unsigned rank);

  const Location& Here() const { return lane_->location; }
  void Sync() { Wait(&barrier_, static_cast<int>(grid_.threads)); }
  void SyncWarp(unsigned mask);
  unsigned ActiveMask(const void* place);
  uint64_t Exchange(unsigned mask, uint64_t bits, int lane_mask);
  void ArriveAtCluster();
  void WaitForCluster();
  void* SharedOfRank(const void* p, unsigned rank);
  void BeginCopy(void* to, const void* from, size_t bytes);
  Lane& lane() { return *lane_; }

 private:
  // Makes the launch fail. The lane that calls this never goes on.
  void Stop(const char* why) {
    error_ = why;
    lane_->fiber.Pause();
  }
  void Wait(Barrier* barrier, int threads) {
    Lane* const self = lane_;
    self->barrier = barrier;
    self->round = barrier->round;
    if (++barrier->arrived == threads) {
      barrier->arrived = 0;
      ++barrier->round;
      ++progress_;
    } else {
      self->fiber.Pause();
    }
  }
  bool RunLanes();
  bool RunWarp(size_t warp);
  // Answers the lanes that have called ActiveMask() at one place; false if no
  // lane of the warp has.
  bool AnswerActive(size_t warp);
  // For a block that cannot go on alone; false if no other block helps it.
  bool WaitForOtherBlocks();

  const Grid grid_;
  const std::function<void()>& body_;
  Cluster* const cluster_;
  std::vector<Lane*> lanes_;
  std::vector<Warp> warps_;
  Barrier barrier_;
  Lane* lane_ = nullptr;  // whose turn it is
  size_t left_ = 0;       // lanes that are not done
  int64_t progress_ = 0;
  int64_t in_cluster_ = 0;  // threads that have arrived there in this round
  int64_t waiting_ = 0;     // of them, those that wait ...
  uint64_t awaited_ = 0;    // ... for so many rounds
  std::string error_;
};

thread_local Block* this_block = nullptr;

// A warp goes on for as long as it can: it is far ahead of the next one.
bool Block::RunLanes() {
  const size_t warps = warps_.size();
  left_ = lanes_.size();
  while (left_ > 0) {
    const int64_t before = progress_;
    for (size_t i = 0; i < warps; ++i) {
      const size_t warp = Device().is_backwards ? warps - 1 - i : i;
      int64_t before_turn;
      do {
        before_turn = progress_;
        if (!RunWarp(warp)) return Fail(error_);
      } while (progress_ != before_turn || AnswerActive(warp));
    }
    if (left_ > 0 && progress_ == before && !WaitForOtherBlocks()) {
      return Fail(std::to_string(left_) + " of " +
                  std::to_string(lanes_.size()) +
                  " threads wait for others that do not come");
    }
  }
  return true;
}

// Runs one turn of each lane of a warp that need not wait.
bool Block::RunWarp(size_t warp) {
  const size_t begin = warp * kWarp;
  const size_t count = std::min<size_t>(lanes_.size() - begin, kWarp);
  for (size_t i = 0; i < count; ++i) {
    lane_ = lanes_[begin + (Device().is_backwards ? count - 1 - i : i)];
    if (lane_->fiber.is_done()) continue;
    const Barrier* barrier = lane_->barrier;
    if (barrier != nullptr && barrier->round == lane_->round) continue;
    lane_->fiber.Resume();
    if (!error_.empty()) return false;
    if (!lane_->fiber.is_done()) continue;
    if (lane_->has_arrived || lane_->looked_at_others) {
      error_ = "a thread ends while blocks of its cluster may still read";
    } else if (!lane_->copies.AreDone()) {
      error_ = "a thread ends before it has waited for its copies";
    } else if (grid_.is_early && !lane_->waited_for_grid) {
      error_ = "a thread ends before it has waited for the grid before";
    }
    if (!error_.empty()) return false;
    --left_;
    ++progress_;
  }
  return true;
}

bool Block::AnswerActive(size_t warp) {
  Warp& asked = warps_[warp];
  if (asked.asking == 0) return false;
  Lane** const lanes = &lanes_[warp * kWarp];
  const void* place = lanes[__builtin_ctz(asked.asking)]->place;
  unsigned group = 0;
  for (unsigned i = 0; i < kWarp; ++i) {
    const bool asks = (asked.asking >> i & 1) != 0;
    if (asks && lanes[i]->place == place) group |= 1u << i;
  }
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((group >> i & 1) == 0) continue;
    lanes[i]->active = group;
    lanes[i]->barrier = nullptr;
  }
  asked.asking &= ~group;
  ++progress_;
  return true;
}

bool Block::WaitForOtherBlocks() {
  return waiting_ > 0 && cluster_->Wait(awaited_);
}

bool Block::Run(int64_t block, unsigned rank) {
  this_block = this;
  warps_.assign((lanes_.size() + kWarp - 1) / kWarp, {});
  barrier_ = {};
  in_cluster_ = waiting_ = 0;
  auto* shared = reinterpret_cast<unsigned char*>(dynamic);
  auto* end = shared + grid_.shared_bytes;
  std::memset(shared, kFresh, end - shared);
  std::memset(end, kBeyond, kMostShared - grid_.shared_bytes);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    lane.exchanges = 0;
    lane.cluster_rounds = 0;
    lane.has_arrived = lane.looked_at_others = false;
    lane.barrier = nullptr;
    lane.copies.Clear();
    lane.waited_for_grid = false;
    lane.location.thread = static_cast<unsigned>(i);
    lane.location.block = static_cast<unsigned>(block);
    lane.location.threads = static_cast<unsigned>(grid_.threads);
    lane.location.blocks = static_cast<unsigned>(grid_.blocks);
    lane.location.rank = rank;
    lane.location.cluster = static_cast<unsigned>(grid_.cluster);
    lane.fiber.Start(
        [](void* body) { (*static_cast<std::function<void()>*>(body))(); },
        const_cast<std::function<void()>*>(&body_));
  }
  cluster_->Enter(rank);
  bool ok = RunLanes();
  if (ok && std::any_of(end, shared + kMostShared,
                        [](int byte) { return byte != kBeyond; })) {
    ok = Fail("a write beyond the shared memory of block " +
              std::to_string(block));
  }
  // Too late for other blocks of the cluster, which see it.
  std::memset(shared, kFresh, end - shared);
  return ok;
}

uint64_t Block::Exchange(unsigned mask, uint64_t bits, int lane_mask) {
  Lane* const self = lane_;
  const unsigned thread = self->location.thread;
  const unsigned lane = thread % kWarp;
  const int lanes = static_cast<int>(
      std::min<int64_t>(grid_.threads - (thread - lane), kWarp));
  if (mask != kAllLanes || lanes < kWarp) {
    Stop("a shuffle of fewer than all lanes of a whole warp");
  }
  Warp& warp = warps_[thread / kWarp];
  const int slot = self->exchanges++ % 2;
  warp.bits[slot][lane] = bits;
  warp.lane_masks[slot][lane] = lane_mask;
  Wait(&warp.barrier, lanes);
  const unsigned other = lane ^ static_cast<unsigned>(lane_mask);
  if (other >= kWarp || warp.lane_masks[slot][other] != lane_mask) {
    Stop("lanes of a warp in different shuffles");
  }
  return warp.bits[slot][other];
}

void Block::SyncWarp(unsigned mask) {
  const unsigned thread = lane_->location.thread;
  if ((mask >> thread % kWarp & 1) == 0) {
    Stop("a thread waits for lanes that it is none of");
  }
  Wait(&warps_[thread / kWarp].of_lanes[mask], __builtin_popcount(mask));
}

unsigned Block::ActiveMask(const void* place) {
  Lane* const self = lane_;
  const unsigned thread = self->location.thread;
  Warp& warp = warps_[thread / kWarp];
  warp.asking |= 1u << thread % kWarp;
  self->barrier = &warp.active;
  self->round = warp.active.round;
  self->place = place;
  self->fiber.Pause();
  return self->active;
}

void Block::ArriveAtCluster() {
  if (lane_->has_arrived) Stop("a thread arrives twice at a cluster's barrier");
  lane_->has_arrived = true;
  lane_->looked_at_others = false;
  ++lane_->cluster_rounds;
  ++progress_;
  if (++in_cluster_ == grid_.threads) {
    in_cluster_ = 0;
    cluster_->Arrive();
  }
}

void Block::WaitForCluster() {
  Lane* const self = lane_;
  if (!self->has_arrived) Stop("a thread waits for a cluster, unannounced");
  awaited_ = self->cluster_rounds;
  ++waiting_;
  while (cluster_->Rounds() < self->cluster_rounds) self->fiber.Pause();
  --waiting_;
  ++progress_;
  self->has_arrived = false;
}

void* Block::SharedOfRank(const void* p, unsigned rank) {
  if (rank != lane_->location.rank) {
    if (lane_->cluster_rounds == 0 || lane_->has_arrived) {
      Stop("a thread looks into a block that it has not waited for");
    }
    lane_->looked_at_others = true;
  }
  return cluster_->SharedOfRank(p, rank);
}

void Block::BeginCopy(void* to, const void* from, size_t bytes) {
  const auto* begin = reinterpret_cast<const char*>(dynamic);
  const auto* place = static_cast<const char*>(to);
  if (place < begin || place + bytes > begin + grid_.shared_bytes) {
    Stop("a copy to what is not the block's dynamic shared memory");
  }
  const bool has_size = bytes == 4 || bytes == 8 || bytes == 16;
  if (!has_size || reinterpret_cast<uintptr_t>(to) % bytes != 0 ||
      reinterpret_cast<uintptr_t>(from) % bytes != 0) {
    Stop("a copy of other than 4, 8 or 16 aligned bytes");
  }
  lane_->copies.Begin(to, from, bytes);
}

// Whether the device can run it.
bool CheckGrid(const Grid& grid, const KernelLimits& limits) {
  if (grid.blocks < 1 || grid.blocks > (int64_t{1} << 31) - 1) {
    return Fail(std::to_string(grid.blocks) + " blocks");
  }
  if (grid.threads < 1 || grid.threads > 1024) {
    return Fail(std::to_string(grid.threads) + " threads to a block");
  }
  if (grid.shared_bytes < 0 || grid.shared_bytes > limits.shared_bytes) {
    return Fail(std::to_string(grid.shared_bytes) +
                " bytes of shared memory, the kernel may have " +
                std::to_string(limits.shared_bytes));
  }
  const int64_t largest =
      Device().major < 9 ? 1 : (limits.large_clusters ? 16 : 8);
  if (grid.cluster < 1 || grid.cluster > largest ||
      grid.blocks % grid.cluster != 0) {
    return Fail("clusters of " + std::to_string(grid.cluster) + " in " +
                std::to_string(grid.blocks) + " blocks");
  }
  if (grid.is_early && Device().major < 9) {
    return Fail("an early launch, which only newer devices have");
  }
  return true;
}

}  // namespace

EmulatedDevice& Device() {
  static EmulatedDevice device;
  return device;
}

KernelLimits& LimitsOf(const void* kernel) {
  static std::map<const void*, KernelLimits> limits;
  return limits[kernel];
}

std::vector<Grid>& Launches() {
  static std::vector<Grid> launches;
  return launches;
}

bool RunGrid(const Grid& grid, const void* kernel,
             const std::function<void()>& body) {
  Launches().push_back(grid);
  if (!CheckGrid(grid, LimitsOf(kernel))) return false;
  Cluster cluster(grid.cluster);
  if (grid.cluster == 1) {
    Block block(grid, body, &cluster);
    for (int64_t i = 0; i < grid.blocks; ++i) {
      if (!block.Run(i, 0)) return false;
      cluster.End();
    }
    return true;
  }
  std::vector<char> ok(static_cast<size_t>(grid.cluster), 1);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < grid.cluster; ++rank) {
    threads.emplace_back([&, rank] {
      Block block(grid, body, &cluster);
      for (int64_t i = rank; i < grid.blocks; i += grid.cluster) {
        if (!block.Run(i, rank)) ok[rank] = 0;
        cluster.End();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::all_of(ok.begin(), ok.end(), [](char value) { return value; });
}

const Location& Here() { return this_block->Here(); }
void SyncBlock() { this_block->Sync(); }
void SyncWarp(unsigned mask) { this_block->SyncWarp(mask); }
unsigned ActiveMask(const void* place) { return this_block->ActiveMask(place); }
uint64_t ExchangeInWarp(unsigned mask, uint64_t bits, int lane_mask) {
  return this_block->Exchange(mask, bits, lane_mask);
}
void ArriveAtCluster() { this_block->ArriveAtCluster(); }
void WaitForCluster() { this_block->WaitForCluster(); }
void* SharedOfRank(const void* p, unsigned rank) {
  return this_block->SharedOfRank(p, rank);
}
void BeginCopy(void* to, const void* from, size_t bytes) {
  this_block->BeginCopy(to, from, bytes);
}
void CommitCopies() { this_block->lane().copies.Commit(); }
void WaitForCopies(size_t prior) { this_block->lane().copies.Wait(prior); }
void WaitForGridBefore() { this_block->lane().waited_for_grid = true; }

}  // namespace testing
}  // namespace xla_ffi_kit
