// kit::for_each on a GPU: the threads of a warp have a row each, and read and
// write tiles of up to 32 columns of all these rows together, by way of shared
// memory. The next tile is on its way while one is computed.

#ifndef XLA_FFI_STRINGS_CUDA_TILES_H_
#define XLA_FFI_STRINGS_CUDA_TILES_H_

#include "xla_ffi/strings/cuda/rows.h"
#include "xla_ffi/strings/cuda/standard.h"
#include "xla_ffi/strings/for_each.h"

namespace kit {
namespace for_each_internal {

template <typename T>
struct Traits<Row<const T>> {
  using Type = T;
  static constexpr bool kIsOperand = true, kIsResult = false;
};
template <typename T>
struct Traits<Shared<const T>> : Traits<Row<const T>> {};
template <typename T>
struct Traits<Row<T>> {
  using Type = T;
  static constexpr bool kIsOperand = false, kIsResult = true;
};

inline constexpr int kWarp = 32;

// The widest tile whose operands' next elements fit 64 registers, and whose
// shared memory fits what a block of one warp may declare.
template <typename T>
constexpr int TileColumns(int operands, int tiles) {
  int columns = 32;
  while (columns > 8 &&
         (operands * columns * sizeof(T) > 256 ||
          tiles * kWarp * (columns + 1) * sizeof(T) > 47 * 1024)) {
    columns /= 2;
  }
  return columns;
}

// The loops of a kernel run one after the other and share this memory.
template <typename T, int kTiles, int kColumns>
struct Tiles {
  // The additional column spreads a column of a tile over all banks.
  T at[kTiles][kWarp][kColumns + 1];

  static Tiles& Get() {
    __shared__ Tiles tiles;
    return tiles;
  }
};

// The threads that share a tile, and a part of it that they do together.
template <int kColumns>
struct Group {
  static constexpr unsigned kAll = 0xffffffff;
  static constexpr int kRowsAtOnce = kWarp / kColumns;  // of a whole warp

  unsigned mask;
  int lane;

  bool is_warp() const { return mask == kAll; }
  // The first element that a lane of a whole warp reads of its part of a tile.
  // Each further one is kRowsAtOnce rows below.
  int row() const { return lane / kColumns; }
  int column() const { return lane % kColumns; }
};

// Begins to load a lane's part of a tile into registers.
template <typename T, int kColumns>
void LoadAhead(const Place<const T>& row, Group<kColumns> group, int64_t begin,
               int columns, T* next) {
  if (group.column() >= columns) return;
  const T* from =
      row.of_lane(group.row() - group.lane) + begin + group.column();
  const int64_t step = row.of_lane(group.kRowsAtOnce) - row.of_lane(0);
#pragma unroll
  for (int j = 0; j < kColumns; ++j, from += step) next[j] = *from;
}

// Writes these registers to shared memory, where the other lanes read them.
template <typename T, int kColumns>
void Arrive(Group<kColumns> group, const T* next, T (*tile)[kColumns + 1]) {
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    tile[group.row() + j * group.kRowsAtOnce][group.column()] = next[j];
  }
}

// Loads a tile for a group that is not a whole warp, which loads nothing ahead.
template <typename T, int kColumns>
void Load(const Place<const T>& row, Group<kColumns> group, int64_t begin,
          int columns, T (*tile)[kColumns + 1]) {
  const int lanes = __popc(group.mask);
#pragma unroll 4
  for (int j = group.lane; j < lanes * columns; j += lanes) {
    const int from = j / columns, column = j % columns;
    tile[from][column] = row.of_lane(from - group.lane)[begin + column];
  }
}

template <typename T, int kColumns>
void Store(const Place<T>& row, Group<kColumns> group, int64_t begin,
           int columns, const T (*tile)[kColumns + 1]) {
  if (group.is_warp()) {
    if (group.column() >= columns) return;
    T* to = row.of_lane(group.row() - group.lane) + begin + group.column();
    const int64_t step = row.of_lane(group.kRowsAtOnce) - row.of_lane(0);
#pragma unroll
    for (int j = 0; j < kColumns; ++j, to += step) {
      *to = tile[group.row() + j * group.kRowsAtOnce][group.column()];
    }
    return;
  }
  const int lanes = __popc(group.mask);
#pragma unroll 4
  for (int j = group.lane; j < lanes * columns; j += lanes) {
    const int to = j / columns, column = j % columns;
    row.of_lane(to - group.lane)[begin + column] = tile[to][column];
  }
}

// The beginnings of tiles, in the order in which they are computed.
template <bool kForwards, int kColumns>
struct Course {
  int64_t size;

  int64_t begin(int64_t tile) const {
    return kColumns *
           (kForwards ? tile : (size + kColumns - 1) / kColumns - 1 - tile);
  }
  int columns(int64_t begin) const {
    return static_cast<int>(size - begin < kColumns ? size - begin : kColumns);
  }
};

template <bool kForwards, typename T, int kColumns, typename Function,
          int... ins, int... outs, typename... Rows>
void InTiles(int64_t size, unsigned mask, Function& function, Indices<ins...>,
             Indices<outs...>, const Rows&... rows) {
  constexpr int kIns = sizeof...(ins), kOuts = sizeof...(outs);
  constexpr int kTiles = kIns > kOuts ? kIns : kOuts;
  auto& tiles = Tiles<T, kTiles, kColumns>::Get();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Group<kColumns> group = {mask, lane};
  const Course<kForwards, kColumns> course = {size};
  T next[kIns + 1][kColumns];
  const auto load_ahead = [&](int64_t tile) {
    const int64_t begin = course.begin(tile);
    const int columns = course.columns(begin);
    (LoadAhead<T>(Get<ins>(rows...), group, begin, columns, next[ins]), ...);
  };
  if (group.is_warp() && size > 0) load_ahead(0);
  for (int64_t done = 0, tile = 0; done < size; ++tile) {
    const int64_t begin = course.begin(tile);
    const int columns = course.columns(begin);
    done += columns;
    if (group.is_warp()) {
      (Arrive<T>(group, next[ins], tiles.at[ins]), ...);
      if (done < size) load_ahead(tile + 1);
    } else {
      (Load<T>(Get<ins>(rows...), group, begin, columns, tiles.at[ins]), ...);
    }
    __syncwarp(mask);
#pragma unroll 4
    for (int j = 0; j < columns; ++j) {
      const int column = kForwards ? j : columns - 1 - j;
      const T in[kIns + 1] = {tiles.at[ins][lane][column]..., T()};
      T out[kOuts + 1];
      Step<T, kOuts>(function, in, out, IndicesBelow<kIns>());
      ((tiles.at[outs][lane][column] = out[outs]), ...);
    }
    __syncwarp(mask);
    (Store<T>(Get<kIns + outs>(rows...), group, begin, columns, tiles.at[outs]),
     ...);
    __syncwarp(mask);
  }
}

// The loop of a thread that is on its own.
template <bool kForwards, typename T, typename Function, int... ins,
          int... outs, typename... Rows>
void Alone(int64_t size, Function& function, Indices<ins...>, Indices<outs...>,
           const Rows&... rows) {
  constexpr int kIns = sizeof...(ins), kOuts = sizeof...(outs);
#pragma unroll 1
  for (int64_t j = 0; j < size; ++j) {
    const int64_t i = kForwards ? j : size - 1 - j;
    const T in[kIns + 1] = {Get<ins>(rows...).of_lane(0)[i]..., T()};
    T out[kOuts + 1];
    Step<T, kOuts>(function, in, out, IndicesBelow<kIns>());
    ((Get<kIns + outs>(rows...).of_lane(0)[i] = out[outs]), ...);
  }
}

// The threads of the warp that are here together share the work if they are its
// first ones, which they are unless rows diverged. Otherwise each thread does
// its own work.
template <bool kForwards, typename T, int kIns, int kOuts, typename Function,
          typename... Rows>
void Run(int64_t size, Function& function, Rows&... rows) {
  constexpr int kColumns = TileColumns<T>(kIns, kIns > kOuts ? kIns : kOuts);
  const unsigned mask = __activemask();
  (rows.Forget(), ...);
  if ((mask & (mask + 1)) != 0) {
    Alone<kForwards, T>(size, function, IndicesBelow<kIns>(),
                        IndicesBelow<kOuts>(), rows...);
  } else {
    InTiles<kForwards, T, kColumns>(size, mask, function, IndicesBelow<kIns>(),
                                    IndicesBelow<kOuts>(), rows...);
  }
  // Discards the windows, because the group has read and written the rows.
  (rows.Forget(), ...);
}

}  // namespace for_each_internal
}  // namespace kit

#endif  // XLA_FFI_STRINGS_CUDA_TILES_H_
