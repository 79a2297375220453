#pragma once

// The tiles of block programs (jit/block_program.h): which thread holds which elements, moves
// between layouts through shared memory, and pointwise ops. Embedded as text for NVRTC.

#include "tensora/backend/cuda/loops/tile.cuh"

namespace tensora::cuda {

// Note [Layouts of tiles]
// A layout says which elements of a tile a thread holds: item i is the element (row(i), column(i)).
// Extents are powers of two; what a tile has fewer is beyond its bounds. Elements may be held by
// several threads, of which one `owns` them. A layout is a type, and ops choose theirs by their
// operands, so the printed text knows nothing of layouts:
//   Blocked     groups of adjacent elements, of adjacent threads: what loads and stores want
//   Fragments   what mma leaves its sums in
//   Single      one value, in all threads
//   Slice       a row or a column for the columns or rows of another layout: a reduction's result
// row_item and column_item say which item of a Slice goes with an item of the layout itself.

#if defined(__CUDACC__)

constexpr int smaller_of(int a, int b) { return a < b ? a : b; }
constexpr int larger_of(int a, int b) { return a > b ? a : b; }

// The integers of a program.
__device__ inline long smaller_long(long a, long b) { return a < b ? a : b; }
__device__ inline long larger_long(long a, long b) { return a > b ? a : b; }
/// Rounded down; 0 where the divisor is 0.
__device__ inline long floor_quotient(long a, long b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
__device__ inline long floor_remainder(long a, long b) { return a - floor_quotient(a, b) * b; }

struct Single {
  static constexpr int kRows = 1, kColumns = 1, kItems = 1;
  __device__ static int row(int) { return 0; }
  __device__ static int column(int) { return 0; }
  __device__ static bool owns() { return threadIdx.x == 0; }
};

template <int R, int C, int T>
struct Blocked {
  static constexpr int kRows = R, kColumns = C, kPack = smaller_of(4, C);
  static constexpr int kAcross = smaller_of(C / kPack, T);  // threads per row
  static constexpr int kDown = smaller_of(R, T / kAcross);  // rows at a time
  static constexpr int kRowItems = R / kDown, kColumnItems = C / kAcross;
  static constexpr int kItems = kRowItems * kColumnItems;
  // Threads of a warp that hold the same row, or the same column, and how many warps' results
  // remain.
  static constexpr int kRowLanes = smaller_of(kAcross, 32), kRowSlots = kAcross / kRowLanes;
  static constexpr int kFirstDistance = smaller_of(kAcross, 32);
  static constexpr int kColumnLanes = smaller_of(kDown, 32 / kFirstDistance);
  static constexpr int kColumnSlots = kDown / kColumnLanes;

  __device__ static int place() { return static_cast<int>(threadIdx.x) % (kAcross * kDown); }
  __device__ static int row(int i) { return place() / kAcross + row_item(i) * kDown; }
  __device__ static int column(int i) {
    const int item = column_item(i);
    return (item / kPack * kAcross + place() % kAcross) * kPack + item % kPack;
  }
  __device__ static constexpr int row_item(int i) { return i / kColumnItems; }
  __device__ static constexpr int column_item(int i) { return i % kColumnItems; }
  __device__ static bool owns() { return threadIdx.x < kAcross * kDown; }
  __device__ static int row_slot() { return place() % kAcross / kRowLanes; }
  __device__ static int column_slot() { return place() / kAcross / kColumnLanes; }
};

template <int R, int C, int T>
struct Fragments {
  static constexpr int kRows = R, kColumns = C;
  static constexpr int kWarpsDown = smaller_of(R / 16, T / 32);
  static constexpr int kWarpsAcross = smaller_of(C / 8, T / 32 / kWarpsDown);
  static constexpr int kWarpRows = R / kWarpsDown, kWarpColumns = C / kWarpsAcross;
  static constexpr int kRowItems = kWarpRows / 8, kColumnItems = kWarpColumns / 4;
  static constexpr int kItems = kRowItems * kColumnItems;
  static constexpr int kRowLanes = 4, kRowSlots = kWarpsAcross;
  static constexpr int kFirstDistance = 4, kColumnLanes = 8, kColumnSlots = kWarpsDown;

  __device__ static int warp() {
    return static_cast<int>(threadIdx.x) / 32 % (kWarpsDown * kWarpsAcross);
  }
  __device__ static int first_row() { return warp() / kWarpsAcross * kWarpRows; }
  __device__ static int first_column() { return warp() % kWarpsAcross * kWarpColumns; }
  // Items are in groups of four, as multiply_add has them; groups in rows of groups.
  __device__ static int row(int i) {
    return first_row() + i / 4 / (kWarpColumns / 8) * 16 + i % 4 / 2 * 8 +
           static_cast<int>(threadIdx.x) % 32 / 4;
  }
  __device__ static int column(int i) {
    return first_column() + i / 4 % (kWarpColumns / 8) * 8 + i % 2 +
           static_cast<int>(threadIdx.x) % 4 * 2;
  }
  __device__ static constexpr int row_item(int i) {
    return i / 4 / (kWarpColumns / 8) * 2 + i % 4 / 2;
  }
  __device__ static constexpr int column_item(int i) {
    return i / 4 % (kWarpColumns / 8) * 2 + i % 2;
  }
  __device__ static bool owns() { return threadIdx.x < kWarpsDown * kWarpsAcross * 32; }
  __device__ static int row_slot() { return warp() % kWarpsAcross; }
  __device__ static int column_slot() { return warp() / kWarpsAcross; }
};

/// One element per row (axis 1 was reduced) or per column (axis 0) of another layout.
template <class Of, int axis>
struct Slice {
  static constexpr int kRows = axis == 1 ? Of::kRows : 1;
  static constexpr int kColumns = axis == 1 ? 1 : Of::kColumns;
  static constexpr int kItems = axis == 1 ? Of::kRowItems : Of::kColumnItems;
  /// An item of the whole that has this row or column.
  __device__ static constexpr int item(int i) {
    for (int k = 0; k < Of::kItems; ++k)
      if ((axis == 1 ? Of::row_item(k) : Of::column_item(k)) == i) return k;
    return 0;
  }
  __device__ static int row(int i) { return axis == 1 ? Of::row(item(i)) : 0; }
  __device__ static int column(int i) { return axis == 1 ? 0 : Of::column(item(i)); }
  // Threads beside one another hold the same; writing it twice does no harm but to atomic_add.
  __device__ static bool owns() {
    return Of::owns() && (axis == 1 ? Of::column(0) == 0 : Of::row(0) == 0);
  }
};

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

/// The layout of a tile where nothing else decides.
template <int R, int C, int T>
struct CanonicalLayout {
  using type = Blocked<R, C, T>;
};
template <int T>
struct CanonicalLayout<1, 1, T> {
  using type = Single;
};
template <int R, int C, int T>
using Canonical = typename CanonicalLayout<R, C, T>::type;

/// The elements of a tile that a thread holds, and how many rows and columns exist.
template <class T_, class L>
struct BlockTile {
  using T = T_;
  using Layout = L;
  value_t<T> items[L::kItems];
  int rows, columns;

  __device__ bool has(int i) const { return L::row(i) < rows && L::column(i) < columns; }
};

inline constexpr int kMoveBytes = 16384;  // of shared memory that moves use

/// Moves a tile to another layout through shared memory. A dim of extent 1 is repeated; with
/// `transposed` rows become columns.
template <class To, bool transposed, class From>
__device__ inline BlockTile<typename From::T, To> moved(const From& from, unsigned char* shared) {
  using L = typename From::Layout;
  using V = value_t<typename From::T>;
  constexpr int kChunk =
      smaller_of(L::kRows, larger_of(1, kMoveBytes / (L::kColumns * int(sizeof(V)))));
  V* const buffer = reinterpret_cast<V*>(shared);
  BlockTile<typename From::T, To> to;
  to.rows = transposed ? from.columns : from.rows;
  to.columns = transposed ? from.rows : from.columns;
#pragma unroll 1
  for (int first = 0; first < L::kRows; first += kChunk) {
    __syncthreads();
    if (L::owns())
#pragma unroll
      for (int i = 0; i < L::kItems; ++i) {
        const int row = L::row(i) - first;
        if (row >= 0 && row < kChunk) buffer[row * L::kColumns + L::column(i)] = from.items[i];
      }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < To::kItems; ++i) {
      const int down = transposed ? To::column(i) : To::row(i);
      const int across = transposed ? To::row(i) : To::column(i);
      const int row = (L::kRows == 1 ? 0 : down) - first;
      if (row >= 0 && row < kChunk)
        to.items[i] = buffer[row * L::kColumns + (L::kColumns == 1 ? 0 : across)];
    }
  }
  return to;
}

/// The same values in the layout To, repeated along dims of extent 1.
template <class To, class From>
__device__ inline BlockTile<typename From::T, To> spread(const From& from, unsigned char* shared) {
  using L = typename From::Layout;
  if constexpr (is_same<L, To>) {
    return from;
  } else if constexpr (is_same<L, Single>) {
    BlockTile<typename From::T, To> to;
#pragma unroll
    for (int i = 0; i < To::kItems; ++i) to.items[i] = from.items[0];
    to.rows = from.rows;
    to.columns = from.columns;
    return to;
  } else if constexpr (is_same<L, Slice<To, 1>> || is_same<L, Slice<To, 0>>) {
    BlockTile<typename From::T, To> to;
#pragma unroll
    for (int i = 0; i < To::kItems; ++i)
      to.items[i] = from.items[is_same<L, Slice<To, 1>> ? To::row_item(i) : To::column_item(i)];
    to.rows = from.rows;
    to.columns = from.columns;
    return to;
  } else {
    return moved<To, false>(from, shared);
  }
}

/// The layout of a result of R x C: that of the first operand with as many elements.
template <int R, int C, int T, class... Operands>
struct ResultLayout {
  using type = Canonical<R, C, T>;
};
template <bool fits, int R, int C, int T, class First, class... Rest>
struct FirstFitting {
  using type = typename First::Layout;
};
template <int R, int C, int T, class First, class... Rest>
struct FirstFitting<false, R, C, T, First, Rest...> {
  using type = typename ResultLayout<R, C, T, Rest...>::type;
};
template <int R, int C, int T, class First, class... Rest>
struct ResultLayout<R, C, T, First, Rest...> {
  using type = typename FirstFitting<First::Layout::kRows == R && First::Layout::kColumns == C, R,
                                     C, T, First, Rest...>::type;
};

// The bounds of a pointwise result along an axis: those of operands that are not repeated.
template <int extent>
__device__ inline int meet(int so_far, int bound) {
  return extent != 1 || bound == 0 ? (bound < so_far ? bound : so_far) : so_far;
}

/// A pointwise op: `formula` gets the operands as C and its result is rounded to dtype Out.
template <class Out, class C, int R, int Cs, int T, class F, class... In>
__device__ inline auto map(const F& formula, unsigned char* shared, const In&... in) {
  using L = typename ResultLayout<R, Cs, T, In...>::type;
  BlockTile<Out, L> out;
  out.rows = R;
  out.columns = Cs;
  ((out.rows = meet<In::Layout::kRows>(out.rows, in.rows)), ...);
  ((out.columns = meet<In::Layout::kColumns>(out.columns, in.columns)), ...);
  const auto apply = [&](const auto&... spreads) {
    C wide[L::kItems];
#pragma unroll
    for (int i = 0; i < L::kItems; ++i)
      wide[i] = static_cast<C>(formula(static_cast<C>(spreads.items[i])...));
    round_all<Out>(wide, out.items);
  };
  apply(spread<L>(in, shared)...);
  return out;
}

/// A conversion, as the op `cast` does it.
template <class Out, class In>
__device__ inline BlockTile<Out, typename In::Layout> converted(const In& in) {
  BlockTile<Out, typename In::Layout> out;
  round_all<Out>(in.items, out.items);
  out.rows = in.rows;
  out.columns = in.columns;
  return out;
}

template <class T, class L>
__device__ inline BlockTile<T, L> filled(value_t<T> value, int rows, int columns) {
  BlockTile<T, L> out;
#pragma unroll
  for (int i = 0; i < L::kItems; ++i) out.items[i] = value;
  out.rows = rows;
  out.columns = columns;
  return out;
}

/// The numbers of rows (axis 0) or columns (axis 1).
template <class L, int axis>
__device__ inline BlockTile<long, L> positions(int rows, int columns) {
  BlockTile<long, L> out;
#pragma unroll
  for (int i = 0; i < L::kItems; ++i) out.items[i] = axis == 0 ? L::row(i) : L::column(i);
  out.rows = axis == 0 ? rows : 1;
  out.columns = axis == 0 ? 1 : columns;
  return out;
}

/// The new value of a tile; what is beyond its bounds stays.
template <class To, class From>
__device__ inline void assign(To& to, const From& from, unsigned char* shared) {
  using L = typename To::Layout;
  const auto source = spread<L>(from, shared);
  const int rows = meet<From::Layout::kRows>(to.rows, from.rows);
  const int columns = meet<From::Layout::kColumns>(to.columns, from.columns);
#pragma unroll
  for (int i = 0; i < L::kItems; ++i)
    if (L::row(i) < rows && L::column(i) < columns) to.items[i] = source.items[i];
}

#endif

}  // namespace tensora::cuda
