#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/pointwise.h"
#include "tensora/backend/cpu/walk.h"
#include "tensora/base/small_vector.h"
#include "tensora/base/thread_pool.h"

// Note [Tiles]
// A pointwise op is split into tiles of about a thousand elements, in the order of the output. For
// each tile every operand is converted into a contiguous buffer of the compute type (or used in
// place, if it already is contiguous and of that type), the functor's vectorised loop runs over the
// buffers, which stay in the L1 cache, and the result is stored in the output. So a functor is
// compiled for four types only (six if it takes complex numbers), whatever dtypes, strides and
// broadcasts the operands have, and half types cost a conversion in cache instead of a kernel each.
// It is also how the JIT fuses ops on the CPU: it runs several functors on one tile.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int kMaxOperands = 8;
constexpr int64_t kTile = 1024;        // half as many where an element takes 16 bytes
constexpr int64_t kGrain = 16 * 1024;  // elements worth waking a thread for
// What is streamed at once, in bytes: as much as the processor can hold until memory takes it, so
// that it goes on computing meanwhile.
constexpr int64_t kStreamTile = 512;

struct ComputeType {
  TileFn fn;
  size_t bytes;
  DType dtype;

  int64_t tile() const { return bytes > 8 ? kTile / 2 : kTile; }
  LoadFn load(DType from) const {
    if (dtype == DType::float32 && from == DType::bfloat16) return load_bfloat16;
    return dtype == DType::float64      ? load_fn<double>(from)
           : dtype == DType::int64      ? load_fn<int64_t>(from)
           : dtype == DType::float32    ? load_fn<float>(from)
           : dtype == DType::complex64  ? load_fn<Complex<float>>(from)
           : dtype == DType::complex128 ? load_fn<Complex<double>>(from)
                                        : load_fn<int32_t>(from);
  }
  StoreFn store(DType to) const {
    if (dtype == DType::float32 && to == DType::bfloat16) return store_bfloat16;
    return dtype == DType::float64      ? store_fn<double>(to)
           : dtype == DType::int64      ? store_fn<int64_t>(to)
           : dtype == DType::float32    ? store_fn<float>(to)
           : dtype == DType::complex64  ? store_fn<Complex<float>>(to)
           : dtype == DType::complex128 ? store_fn<Complex<double>>(to)
                                        : store_fn<int32_t>(to);
  }
};

ComputeType compute_type(const KernelContext& context, const Tiles& tiles) {
  ComputeType result{};
  switch (context.compute_dtype) {
    case DType::float64:
      result = {tiles.f64, 8, DType::float64};
      break;
    case DType::int64:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:  // its bits; ops for which the sign matters do not accept it
      result = {tiles.i64, 8, DType::int64};
      break;
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      result = {tiles.f32, 4, DType::float32};
      break;
    case DType::complex64:
      result = {tiles.c64, 8, DType::complex64};
      break;
    case DType::complex128:
      result = {tiles.c128, 16, DType::complex128};
      break;
    default:
      result = {tiles.i32, 4, DType::int32};
  }
  check(result.fn != nullptr, context.op, ": not supported for ", context.compute_dtype);
  return result;
}

struct Operand {
  const char* data;
  LoadFn load;  // null: used in place
  bool linear;  // contiguous in the order of the output's elements
  bool single;  // one element for all
  size_t element_bytes;
  int index;  // in the walk
};

struct Job {
  Walk walk;
  ComputeType type;
  const void* functor;  // null: a copy
  Operand in[kMaxOperands];
  int count;
  char* out;
  StoreFn store;  // null: the tile is written in place
  bool out_linear;
  bool stream;
  size_t out_bytes;
  int64_t tile;
};

// While a tile is computed with, memory would have nothing to do: what an operand that is used in
// place has a thousand elements further on is fetched meanwhile, a few lines at a time.
constexpr int64_t kPieces = 4;
void compute_tile(const Job& job, int64_t n, char* out, const void* const* operands) {
  const auto bytes = static_cast<int64_t>(job.type.bytes);
  const int64_t ahead = job.type.tile(), piece = ahead / kPieces;
  const void* pointers[kMaxOperands];
  for (int64_t at = 0; at < n; at += piece) {
    const int64_t count = std::min(piece, n - at);
    for (int k = 0; k < job.count; ++k) {
      const char* const operand = static_cast<const char*>(operands[k]) + at * bytes;
      pointers[k] = operand;
      if (job.in[k].load) continue;
      for (int64_t line = 0; line < count * bytes; line += 64)
        __builtin_prefetch(operand + ahead * bytes + line);
    }
    job.type.fn(job.functor, count, out + at * bytes, pointers);
  }
}

// A whole tile consists of units; what is left of the last one may not.
void write_past_cache(char* to, const char* from, size_t bytes) {
  const size_t whole = bytes / kStreamUnit * kStreamUnit;
  copy_streaming(to, from, whole);
  std::memcpy(to + whole, from + whole, bytes - whole);
}

void run_tiles(const Job& job, int64_t begin, int64_t end) {
  // Apart by more than a multiple of 4096, which would make a load wait for a store nearby.
  alignas(64) char buffers[kMaxOperands + 2][kTile * 8 + 320];
  const int64_t tile = job.tile;
  const void* pointers[kMaxOperands];
  for (int k = 0; k < job.count; ++k)
    if (job.in[k].single) {
      job.in[k].load(job.in[k].data, 0, std::min(tile, end - begin), buffers[k]);
      pointers[k] = buffers[k];
    }
  char* const result = buffers[kMaxOperands];
  char* const narrow = buffers[kMaxOperands + 1];
  for (int64_t start = begin; start < end; start += tile) {
    const int64_t n = std::min(tile, end - start);
    for (int k = 0; k < job.count; ++k) {
      const Operand& operand = job.in[k];
      if (operand.single) continue;
      const char* at = operand.data + start * static_cast<int64_t>(operand.element_bytes);
      if (operand.linear && !operand.load) {
        pointers[k] = at;
        continue;
      }
      pointers[k] = buffers[k];
      if (operand.linear)
        operand.load(at, 1, n, buffers[k]);
      else
        job.walk.gather(operand.index, operand.data, operand.element_bytes, start, n, operand.load,
                        buffers[k], job.type.bytes);
    }
    char* const target = job.out + start * static_cast<int64_t>(job.out_bytes);
    if (job.out_linear && !job.store && !job.stream) {
      compute_tile(job, n, target, pointers);
      continue;
    }
    const char* done = result;
    if (job.functor)
      compute_tile(job, n, result, pointers);
    else
      done = static_cast<const char*>(pointers[0]);
    if (job.stream) {
      if (job.store) job.store(done, narrow, 1, n);
      write_past_cache(target, job.store ? narrow : done, static_cast<size_t>(n) * job.out_bytes);
    } else if (job.out_linear) {
      job.store(done, target, 1, n);
    } else {
      job.walk.scatter(0, job.out, job.out_bytes, start, n, job.store, done, job.type.bytes);
    }
  }
  if (job.stream) finish_streaming();
}

[[gnu::noinline]] void run_plain_in_parallel(const KernelContext& context, TileFn fn,
                                             const void* functor, const void* const* pointers) {
  const View& out = context.output();
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  parallel_for(out.numel, kGrain, [&](int64_t begin, int64_t end) {
    const void* shifted[kMaxOperands];
    const int64_t offset = begin * bytes;
    for (size_t k = 0; k < context.in.size(); ++k)
      shifted[k] = static_cast<const char*>(pointers[k]) + offset;
    fn(functor, end - begin, static_cast<char*>(out.data) + offset, shifted);
  });
}

// All arrays contiguous, with as many elements as the output and of the compute type: no tiles
// needed. An operand that is broadcast has fewer elements.
bool run_plain(const KernelContext& context, const ComputeType& type, const void* functor) {
  const View& out = context.output();
  if (out.dtype != type.dtype || out.bytes() >= kStreamBytes) return false;
  const void* pointers[kMaxOperands];
  for (size_t k = 0; k < context.in.size(); ++k) {
    const View& view = context.input(k);
    if (view.dtype != type.dtype || !view.contiguous || view.numel != out.numel) return false;
    pointers[k] = view.data;
  }
  if (!out.contiguous) return false;
  if (out.numel <= kGrain)
    type.fn(functor, out.numel, out.data, pointers);
  else
    run_plain_in_parallel(context, type.fn, functor, pointers);
  return true;
}

// The arrays of a call that runs by blocks, as rows in which an operand is contiguous or single.
struct Rows {
  const Walk& walk;
  LoadFn load[kMaxOperands] = {};  // of a single element
  const char* data[kMaxOperands] = {};
  size_t element_bytes[kMaxOperands] = {};
  int count = 0;
  unsigned single = 0;  // a bit for every operand

  // Where element `at` of a row is in operand k.
  const char* place(int k, int64_t row, int64_t at) const {
    int64_t offset = at * walk.stride(k + 1, walk.dim() - 1);
    for (int d = walk.dim() - 2; d >= 0; --d) {
      offset += row % walk.size(d) * walk.stride(k + 1, d);
      row /= walk.size(d);
    }
    return data[k] + offset * static_cast<int64_t>(element_bytes[k]);
  }
  void run(BlockFn fn, const void* functor, int64_t row, int64_t at, int64_t n, char* out,
           bool past_cache) const {
    const void* pointers[kMaxOperands];
    float values[kMaxOperands];
    for (int k = 0; k < count; ++k) {
      pointers[k] = place(k, row, at);
      if (!(single >> k & 1u)) continue;
      load[k](pointers[k], 0, 1, values + k);
      pointers[k] = values + k;
    }
    fn(functor, n, out, pointers, single, past_cache);
  }
};

// See Note [Blocks]: false if the arrays are not made for it.
bool run_blocks(const KernelContext& context, const ComputeType& type, const Tiles& tiles,
                const void* functor, const Walk& walk) {
  constexpr int64_t kShortRow = 256;
  const View& out = context.output();
  const BlockFn fn = out.dtype == DType::bfloat16  ? tiles.bf16_blocks
                     : out.dtype == DType::float32 ? tiles.f32_blocks
                                                   : nullptr;
  if (!fn || type.dtype != DType::float32) return false;
  Rows rows{.walk = walk, .count = static_cast<int>(context.in.size())};
  const int inner = walk.dim() - 1;
  const int64_t width = walk.size(inner);
  if (!walk.is_linear(0) || (inner > 0 && width < kShortRow)) return false;
  bool written_in_place = false;
  for (int k = 0; k < rows.count; ++k) {
    const View& view = context.input(static_cast<size_t>(k));
    const int64_t step = walk.stride(k + 1, inner);
    rows.load[k] = type.load(view.dtype);
    rows.data[k] = static_cast<const char*>(view.data);
    rows.element_bytes[k] = element_size(view.dtype);
    if (step == 0 || view.numel == 1)
      rows.single |= 1u << k;
    else if (step != 1 || view.dtype != out.dtype)
      return false;
    written_in_place |= view.data == out.data;
  }
  const size_t row_bytes = static_cast<size_t>(width) * element_size(out.dtype);
  const bool past_cache = out.bytes() >= kStreamBytes && !written_in_place &&
                          (inner == 0 || row_bytes % kStreamUnit == 0) &&
                          reinterpret_cast<uintptr_t>(out.data) % kStreamUnit == 0;
  if (out.dtype == DType::float32 && !past_cache) return false;
  const int64_t parts = (width + kGrain - 1) / kGrain, row_count = out.numel / width;
  const auto element = static_cast<int64_t>(element_size(out.dtype));
  parallel_for(row_count * parts, std::max<int64_t>(1, kGrain / width),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t row = i / parts, at = i % parts * kGrain;
                   rows.run(fn, functor, row, at, std::min(kGrain, width - at),
                            out.as<char>() + (row * width + at) * element, past_cache);
                 }
                 if (past_cache) finish_streaming();
               });
  return true;
}

// Whether integers must be truncated to the narrower dtype to which the operands are promoted. Only
// 0-dim operands can be wider than that: they yield in type promotion.
bool is_cut(DType from, DType compute) {
  const auto is_whole = [](DType dtype) { return dtype_info(dtype).category <= Category::integer; };
  if (from == compute || !is_whole(from) || !is_whole(compute)) return false;
  if (is_wide_unsigned(compute)) return element_size(from) > element_size(compute);
  return element_size(compute) < 4 && promote_types(from, compute) != compute;
}

// Apart from run_pointwise, most of whose calls are small: those need not save registers for it.
[[gnu::noinline]] void run_in_tiles(const KernelContext& context, const Tiles& tiles,
                                    const void* functor) {
  const View& out = context.output();
  const ComputeType type = compute_type(context, tiles);
  Job job;
  job.type = type;
  job.functor = functor;
  job.count = static_cast<int>(context.in.size());
  ensure(job.count <= kMaxOperands, context.op, ": too many operands");
  SmallVector<const View*, kMaxOperands + 1> views;
  views.push_back(&out);
  for (const View* view : context.in) views.push_back(view);
  job.walk = Walk(views);
  if (run_blocks(context, type, tiles, functor, job.walk)) return;

  bool written_in_place = false;
  alignas(8) char cut[kMaxOperands][8];
  for (int k = 0; k < job.count; ++k) {
    const View& view = context.input(static_cast<size_t>(k));
    Operand& operand = job.in[k];
    operand.data = static_cast<const char*>(view.data);
    operand.element_bytes = element_size(view.dtype);
    operand.index = k + 1;
    operand.single = view.numel == 1;
    operand.linear = job.walk.is_linear(k + 1);
    operand.load = operand.linear && !operand.single && view.dtype == type.dtype
                       ? nullptr
                       : type.load(view.dtype);
    written_in_place |= view.data == out.data;
    if (operand.single && is_cut(view.dtype, context.compute_dtype)) {
      alignas(8) char wide[8];
      operand.load(view.data, 0, 1, wide);
      type.store(context.compute_dtype)(wide, cut[k], 1, 1);
      operand.data = cut[k];
      operand.load = type.load(context.compute_dtype);
    }
  }
  job.out = static_cast<char*>(out.data);
  job.out_bytes = element_size(out.dtype);
  job.out_linear = job.walk.is_linear(0);
  job.store = job.out_linear && out.dtype == type.dtype ? nullptr : type.store(out.dtype);
  job.stream = job.out_linear && !written_in_place && out.bytes() >= kStreamBytes &&
               reinterpret_cast<uintptr_t>(out.data) % 64 == 0;
  bool linear = true;
  for (int k = 0; k < job.count; ++k) linear &= job.in[k].linear || job.in[k].single;
  job.tile = job.stream && linear && functor ? kStreamTile / static_cast<int64_t>(job.out_bytes)
                                             : type.tile();
  const int64_t tile = job.tile, tile_count = (out.numel + tile - 1) / tile;
  parallel_for(tile_count, kGrain / tile, [&](int64_t begin, int64_t end) {
    run_tiles(job, begin * tile, std::min(end * tile, out.numel));
  });
}

}  // namespace

void run_pointwise(const KernelContext& context, const Tiles& tiles, const void* functor) {
  if (context.output().numel == 0) return;
  if (!run_plain(context, compute_type(context, tiles), functor))
    run_in_tiles(context, tiles, functor);
}

}  // namespace tensora::cpu::TENSORA_ISA
