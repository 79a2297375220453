#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/attention/attention_forward_hopper.cuh"
#include "tensora/ops/paged/paged_tiles.cuh"

// Note [Paged attention on Hopper]
// The kernel of Note [Attention on Hopper] over a paged cache. The TMA reads keys and values from
// the blocks where they lie: a tile of 128 keys is one copy per block and 64 numbers of a head,
// made by as many threads as there are blocks in a tile, each of which looks up its own block. A
// block beyond the sequence's end gets a number that does not exist, so that the TMA writes zeros.
// Tiles of queries begin at positions that are multiples of 128, not at a sequence's first query:
// then only the last tile of keys is hidden from some of the queries, wherever a part of a prompt
// begins (and, with a window, the first tiles that they see). The first tile of a sequence may
// therefore have few queries.
//
// Caches of other dtypes than the queries', or of blocks that do not divide a tile, are copied and
// converted first, into blocks of 128. That reads and writes every key once, a few megabytes, where
// the products read them once per head and tile: for 2048 tokens 5 of 90 microseconds.

namespace tensora::cuda {
namespace {

using namespace hopper;

// Of keys and values, converted.
constexpr int64_t kMostConverted = int64_t{512} << 20;

template <bool window>
struct PagedProblem {
  PagedCall call;
  CUtensorMap query, key, value;
  int blocks;    // of the cache
  int box_rows;  // of a block that one copy takes

  static constexpr bool kMaySeeNothing = true;

  struct Work {
    int first, begin, steps, head, sequence;
    int length, queries, first_query;
    __device__ int offset() const { return length - queries; }  // where the first query stands
  };
  struct Row {
    int block, row;
  };

  __device__ Work work(const TileOrder& tiles, int number) const {
    const TileOrder::Place at = tiles.at(number, call.heads);
    const PagedPlace place(call, at.batch, at.head / (call.heads / call.groups));
    const int begin = place.position(0) & ~(kRows - 1);
    const int first = begin + (tiles.tiles - 1 - at.tile) * kRows;  // the most keys first
    const bool sees = place.queries > 0 && first >= 0 && first < place.length;
    const int lowest = window ? max(first - call.window + 1, 0) / kKeys : 0;
    return {first,         lowest,           sees ? first / kKeys + 1 - lowest : 0,
            at.head,       at.batch,         place.length,
            place.queries, place.first_query};
  }
  __device__ int loaders() const { return kKeys / box_rows; }
  __device__ Row find(const Work& work, int tile) const {
    const int position = tile * kKeys + static_cast<int>(threadIdx.x) * box_rows;
    if (position >= work.length) return {blocks, 0};
    const int number =
        call.block_shift >= 0 ? position >> call.block_shift : position / call.block_size;
    const int64_t entry = int64_t{work.sequence} * call.blocks_per_sequence + number;
    return {call.table ? call.table[entry] : static_cast<int>(entry),
            position - number * call.block_size};
  }
  template <int width>
  __device__ void load_query(const Work& work, unsigned to, unsigned barrier) const {
    if (threadIdx.x != 0) return;
#pragma unroll
    for (unsigned panel = 0; panel < HopperTile<width>::kPanels; ++panel)
      copy_box(to + panel * HopperTile<width>::kPanelBytes, query, static_cast<int>(panel) * 64,
               work.first_query + work.first - work.offset(), work.head, 0, barrier);
  }
  template <int width>
  __device__ void load(const CUtensorMap& map, const Work& work, Row from, unsigned to,
                       unsigned barrier) const {
    to += threadIdx.x * static_cast<unsigned>(box_rows) * 128;
#pragma unroll
    for (unsigned panel = 0; panel < HopperTile<width>::kPanels; ++panel)
      copy_box(to + panel * HopperTile<width>::kPanelBytes, map, static_cast<int>(panel) * 64,
               from.row, work.head / (call.heads / call.groups), from.block, barrier);
  }
  // The last query of a tile sees least of the first keys.
  __device__ bool hides_some(const Work& work, int tile) const {
    return window && tile * kKeys <= work.first + kRows - 1 - call.window;
  }
  __device__ bool hides(int q, int k) const { return k > q || (window && k <= q - call.window); }
  __device__ static int held(const Work& work) { return min(work.length - work.first, kKeys); }
  __device__ float factor() const { return call.scale; }
  __device__ int value_size() const { return call.size; }
  __device__ char* store_row(const Work& work, int position, float, float) const {
    const int number = position - work.offset();
    if (number < 0 || number >= work.queries) return nullptr;
    const int64_t row = int64_t{work.first_query + number} * call.heads + work.head;
    return call.out + row * call.size * 2;
  }
};

// Keys and values of a sequence's 128 positions, converted.
template <class T>
__global__ void __launch_bounds__(256)
    convert_blocks(const __grid_constant__ PagedCall call, uint4* keys, uint4* values) {
  const PagedPlace place(call, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y));
  const int chunks = call.size / 8, first = static_cast<int>(blockIdx.x) * kKeys;
  const int count = min(place.length - first, kKeys) * chunks;
  const int64_t block = (int64_t{blockIdx.z} * gridDim.x + blockIdx.x) * gridDim.y + blockIdx.y;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 256) {
    const int64_t from = place.row(call, first + i / chunks) * call.size + i % chunks * 8;
    const int64_t to = block * kKeys * chunks + i;
    keys[to] = converted_chunk<T>(call.keys, call.cache_dtype, from);
    values[to] = converted_chunk<T>(call.values, call.cache_dtype, from);
  }
}

// Tokens of no sequence.
__global__ void __launch_bounds__(kPagedThreads)
    clear_spare_tokens(const __grid_constant__ PagedCall call) {
  const int token = static_cast<int>(blockIdx.x * (kPagedThreads / 32) + threadIdx.x / 32);
  if (token >= call.tokens || sequence_of(call, token) >= 0) return;
  const int chunks = call.heads * call.size / 8;
  uint4* const out = reinterpret_cast<uint4*>(call.out) + int64_t{token} * chunks;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < chunks; i += 32) out[i] = uint4{};
}

Array4 array_of(const PagedCall& call, const void* data, int64_t batch, int64_t head, int64_t row) {
  return {.data = const_cast<char*>(static_cast<const char*>(data)),
          .strides = {batch, head, row, 1},
          .element = call.dtype == DType::bfloat16 ? Element::bfloat16 : Element::float16};
}

template <class T, bool window>
bool attend_on_hopper(std::string_view op, int device, const PagedCall& call, int64_t blocks) {
  PagedProblem<window> problem{.call = call,
                               .blocks = static_cast<int>(blocks),
                               .box_rows = std::min(call.block_size, kKeys)};
  const int64_t size = call.size, block = call.block_size * size;
  const auto describe = [&](const void* cache, CUtensorMap& map) {
    return describe_boxes(array_of(call, cache, call.groups * block, block, size), call.size,
                          call.block_size, call.groups, blocks, problem.box_rows, map);
  };
  if (!describe(call.keys, problem.key) || !describe(call.values, problem.value) ||
      !describe_boxes(array_of(call, call.query, 0, size, call.heads * size), call.size,
                      call.tokens, call.heads, 1, kRows, problem.query))
    return false;
  // Tiles begin at multiples of 128, so a sequence may have one more than its queries would fill.
  const TileOrder order =
      tile_order(op, int64_t{call.max_query} + kRows - 1, int64_t{call.sequences} * call.heads,
                 int64_t{call.max_length} * size * 4 * call.groups / call.heads);
  if (call.size <= 64)
    launch_on_hopper<T, 64>(op, device, problem, order);
  else
    launch_on_hopper<T, 128>(op, device, problem, order);
  constexpr int kTokens = kPagedThreads / 32;
  Launch{op, device}(clear_spare_tokens,
                     dim3(static_cast<unsigned>((call.tokens + kTokens - 1) / kTokens)),
                     dim3(kPagedThreads), call);
  return true;
}

template <class T, bool window>
bool convert_and_attend(std::string_view op, int device, PagedCall call) {
  const int64_t pages = (call.max_length + kKeys - 1) / kKeys, blocks = pages * call.sequences;
  const int64_t bytes = blocks * call.groups * kKeys * call.size * 2;
  if (2 * bytes > kMostConverted) return false;
  const Scratch memory(device, static_cast<size_t>(2 * bytes));
  auto* const keys = reinterpret_cast<uint4*>(memory.data());
  auto* const values = reinterpret_cast<uint4*>(memory.data() + bytes);
  Launch{op, device}(convert_blocks<T>,
                     dim3(static_cast<unsigned>(pages), static_cast<unsigned>(call.groups),
                          static_cast<unsigned>(call.sequences)),
                     dim3(256), call, keys, values);
  call.keys = memory.data();
  call.values = memory.data() + bytes;
  call.table = nullptr;
  call.block_size = kKeys;
  call.block_shift = 7;
  call.blocks_per_sequence = static_cast<int>(pages);
  return attend_on_hopper<T, window>(op, device, call, blocks);
}

}  // namespace

bool paged_attention_on_hopper(std::string_view op, int device, const PagedCall& call) {
  if (call.size > 128 || call.softcap > 0 || !(call.scale > 0)) return false;
  const bool boxes_fit =
      call.block_size % kKeys == 0 || (call.block_size % 8 == 0 && kKeys % call.block_size == 0);
  const auto run = [&]<class T, bool window>() {
    return boxes_fit && call.cache_dtype == call.dtype
               ? attend_on_hopper<T, window>(op, device, call, call.blocks)
               : convert_and_attend<T, window>(op, device, call);
  };
  const auto run_type = [&]<class T>() {
    // A window that is longer than every sequence hides nothing.
    return call.window > 0 && call.window < call.max_length ? run.template operator()<T, true>()
                                                            : run.template operator()<T, false>();
  };
  return call.dtype == DType::bfloat16 ? run_type.template operator()<BFloat16>()
                                       : run_type.template operator()<Half>();
}

}  // namespace tensora::cuda
