#include "tensora/backend/cpu/reduce.h"

#include <vector>

#include "tensora/backend/cpu/bfloat16.h"
#include "tensora/base/small_vector.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Note [Reducing any dims]
// The dims are either kept or reduced; adjacent dims of one kind are merged where the strides
// allow. Then one of two forms applies, depending on which kind has the smaller innermost stride:
//   rows     the innermost dim is reduced: one output after another, each from contiguous runs;
//   columns  the innermost dim is kept: up to kReduceColumns adjacent outputs at once, row by row.
// Elements that are not contiguous values of the compute type are converted through a small buffer.
//
// When there are few outputs, the reduced range is split into chunks whose accumulators are
// combined in order. The chunks depend on the sizes alone, so the result is the same for any thread
// count.

constexpr int64_t kTaskElements = 32 * 1024;  // worth waking a thread for
constexpr int64_t kMaxChunks = 64;
constexpr int64_t kBatch = 64;  // outputs that the rows form accumulates at once
constexpr int64_t kBufferBytes = 32 * 1024;
constexpr int64_t kWide = 256;  // to which narrow columns are widened

struct Dim {
  int64_t size, in, out;  // strides in elements
};
using DimList = SmallVector<Dim, kMaxDims>;

// Repeated dims (stride 0) count as the outermost ones.
uint64_t rank(const Dim& dim) { return static_cast<uint64_t>(dim.in) - 1; }

void sort_by_stride(DimList& dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    for (size_t j = i; j > 0 && rank(dims[j - 1]) < rank(dims[j]); --j)
      std::swap(dims[j - 1], dims[j]);
}

// Merges adjacent dims whose strides allow it.
void join(DimList& dims) {
  size_t used = 0;
  for (const Dim dim : dims) {
    Dim* const outer = used > 0 ? &dims[used - 1] : nullptr;
    if (outer && outer->in == dim.in * dim.size && outer->out == dim.out * dim.size)
      *outer = {outer->size * dim.size, dim.in, dim.out};
    else
      dims[used++] = dim;
  }
  while (dims.size() > used) dims.pop_back();
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Calls run(offset, count) for runs of [begin, end) of the index space along its last dim.
template <class Run>
void each_run(std::span<const Dim> dims, int64_t begin, int64_t end, Run&& run) {
  if (begin >= end) return;
  if (dims.empty()) return run(int64_t(0), int64_t(1));
  const size_t last = dims.size() - 1;
  int64_t index[kMaxDims];
  int64_t rest = begin, offset = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = rest % dims[d].size;
    rest /= dims[d].size;
    offset += index[d] * dims[d].in;
  }
  while (begin < end) {
    const int64_t count = std::min(end - begin, dims[last].size - index[last]);
    run(offset, count);
    begin += count;
    offset += count * dims[last].in;
    index[last] += count;
    for (size_t d = last; d > 0 && index[d] == dims[d].size; --d) {
      offset += dims[d - 1].in - dims[d].size * dims[d].in;
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

class Reduction {
 public:
  Reduction(const View& in, uint32_t mask, std::span<const View* const> out,
            const ReduceTiles& tiles, const void* functor);
  void run();

 private:
  void run_rows();
  void run_columns();
  void reduce_rows(int64_t output, int64_t outputs, int64_t begin, int64_t end, char* acc) const;
  void take_rows(const char* x, int64_t rows, int64_t n, int64_t index, char* acc) const;
  void reduce_columns(int64_t tile, int64_t begin, int64_t end, char* acc) const;
  void take_columns(const char* x, int64_t rows, int64_t n, int64_t index, char* acc) const;
  void contiguous_columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t index,
                          char* acc) const;
  void store(const char* acc, int64_t n, int64_t offset, int64_t stride) const;
  int64_t out_offset(int64_t output) const;
  const char* at(int64_t offset) const { return data_ + offset * element_bytes_; }
  int64_t columns_of(int64_t tile) const {
    return std::min(kReduceColumns, row_.size - tile % tiles_per_row_ * kReduceColumns);
  }

  const ReduceTiles& tiles_;
  const void* functor_;
  std::span<const View* const> out_;
  const char* data_;
  int64_t element_bytes_, compute_bytes_;
  bool same_type_;
  LoadFn load_;
  StoreFn store_[2];
  DimList kept_, reduced_;           // outermost first
  Dim row_{1, 1, 1}, run_{1, 1, 0};  // the innermost of each
  int64_t outputs_ = 1, count_ = 1;
  int64_t tiles_per_row_ = 1;  // columns form: of the innermost kept dim
};

LoadFn load_for(DType compute, DType dtype) {
  switch (compute) {
    case DType::float32:
      return dtype == DType::bfloat16 ? load_bfloat16 : load_fn<float>(dtype);
    case DType::float64:
      return load_fn<double>(dtype);
    case DType::int64:
      return load_fn<int64_t>(dtype);
    default:
      return load_tile<uint8_t, uint8_t>;
  }
}

StoreFn store_for(DType compute, DType dtype) {
  switch (compute) {
    case DType::float32:
      return store_fn<float>(dtype);
    case DType::float64:
      return store_fn<double>(dtype);
    default:
      return store_fn<int64_t>(dtype);
  }
}

Reduction::Reduction(const View& in, uint32_t mask, std::span<const View* const> out,
                     const ReduceTiles& tiles, const void* functor)
    : tiles_(tiles),
      functor_(functor),
      out_(out),
      data_(in.as<const char>()),
      element_bytes_(static_cast<int64_t>(element_size(in.dtype))),
      compute_bytes_(static_cast<int64_t>(element_size(tiles.compute))),
      same_type_(in.dtype == tiles.compute || tiles.compute == DType::uint8),
      load_(load_for(tiles.compute, in.dtype)) {
  for (size_t k = 0; k < out.size(); ++k) store_[k] = store_for(tiles.outputs[k], out[k]->dtype);
  int64_t out_stride = 1;
  for (int d = in.dim() - 1; d >= 0; --d) {
    const bool reduces = mask >> d & 1;
    const Dim dim{in.sizes[d], in.strides[d], reduces ? 0 : out_stride};
    (reduces ? count_ : outputs_) *= dim.size;
    if (!reduces) out_stride *= dim.size;
    if (dim.size != 1) (reduces ? reduced_ : kept_).push_back(dim);
  }
  std::reverse(kept_.begin(), kept_.end());
  std::reverse(reduced_.begin(), reduced_.end());
  sort_by_stride(kept_);
  if (!tiles.indexed) sort_by_stride(reduced_);
  join(kept_);
  join(reduced_);
  if (!kept_.empty()) row_ = kept_.back();
  if (!reduced_.empty()) run_ = reduced_.back();
}

int64_t Reduction::out_offset(int64_t output) const {
  int64_t offset = 0;
  for (size_t d = kept_.size(); d-- > 0; output /= kept_[d].size)
    offset += output % kept_[d].size * kept_[d].out;
  return offset;
}

void Reduction::store(const char* acc, int64_t n, int64_t offset, int64_t stride) const {
  alignas(64) char results[2][kReduceColumns * 8];
  void* const out[2] = {results[0], results[1]};
  tiles_.finish(functor_, acc, n, out);
  for (size_t k = 0; k < out_.size(); ++k)
    store_[k](results[k],
              out_[k]->as<char>() + offset * static_cast<int64_t>(element_size(out_[k]->dtype)),
              stride, n);
}

void Reduction::run() {
  if (outputs_ == 0) return;
  const bool columns = !kept_.empty() && !reduced_.empty() && rank(row_) < rank(run_);
  columns ? run_columns() : run_rows();
}

// ---- rows --------------------------------------------------------------------------------------

void Reduction::run_rows() {
  const int64_t chunks =
      outputs_ >= kMaxChunks ? 1 : std::clamp(count_ / kTaskElements, int64_t(1), kMaxChunks);
  const int64_t acc_bytes = tiles_.acc_bytes;
  if (chunks == 1) {
    const int64_t grain = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(count_, 1));
    parallel_for(outputs_, grain, [&](int64_t first, int64_t last) {
      alignas(64) char acc[kBatch * kMaxAccBytes];
      while (first < last) {
        const int64_t batch = std::min({kBatch, last - first, row_.size - first % row_.size});
        reduce_rows(first, batch, 0, count_, acc);
        store(acc, batch, out_offset(first), row_.out);
        first += batch;
      }
    });
    return;
  }
  const int64_t chunk = ceil_div(ceil_div(count_, chunks), kRunBlock) * kRunBlock;
  std::vector<char> partial(static_cast<size_t>(outputs_ * chunks * acc_bytes));
  parallel_for(outputs_ * chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = std::min(count_, i % chunks * chunk);
      reduce_rows(i / chunks, 1, begin, std::min(count_, begin + chunk),
                  partial.data() + i * acc_bytes);
    }
  });
  for (int64_t output = 0; output < outputs_; ++output) {
    char* const acc = partial.data() + output * chunks * acc_bytes;
    for (int64_t i = 1; i < chunks; ++i) tiles_.combine(functor_, acc, acc + i * acc_bytes, 1);
    store(acc, 1, out_offset(output), 1);
  }
}

// `outputs` adjacent results along the innermost kept dim, over [begin, end) of the reduced range.
void Reduction::reduce_rows(int64_t output, int64_t outputs, int64_t begin, int64_t end,
                            char* acc) const {
  int64_t base = 0, rest = output;
  for (size_t d = kept_.size(); d-- > 0; rest /= kept_[d].size)
    base += rest % kept_[d].size * kept_[d].in;
  tiles_.init(functor_, acc, outputs);
  int64_t index = begin;
  each_run(reduced_, begin, end, [&](int64_t offset, int64_t n) {
    take_rows(at(base + offset), outputs, n, index, acc);
    index += n;
  });
}

void Reduction::take_rows(const char* x, int64_t rows, int64_t n, int64_t index, char* acc) const {
  const int64_t row_stride = row_.in, stride = run_.in;
  if (same_type_ && (stride == 1 || n == 1)) {
    tiles_.rows(functor_, x, row_stride, rows, n, index, acc);
    return;
  }
  alignas(64) char buffer[kBufferBytes];
  // A run, which is reduced by itself anyway; more would take the L1 cache from what is read next.
  const int64_t capacity = std::min(kBufferBytes / compute_bytes_, kRunBlock);
  if (n > capacity) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n; i += capacity) {
        const int64_t piece = std::min(capacity, n - i);
        load_(x + (r * row_stride + i * stride) * element_bytes_, stride, piece, buffer);
        tiles_.rows(functor_, buffer, 0, 1, piece, index + i, acc + r * tiles_.acc_bytes);
      }
    return;
  }
  const int64_t step = capacity / n;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t height = std::min(step, rows - r);
    const char* const from = x + r * row_stride * element_bytes_;
    if (row_stride == n * stride)
      load_(from, stride, height * n, buffer);
    else
      for (int64_t i = 0; i < height; ++i)
        load_(from + i * row_stride * element_bytes_, stride, n, buffer + i * n * compute_bytes_);
    tiles_.rows(functor_, buffer, n, height, n, index, acc + r * tiles_.acc_bytes);
  }
}

// ---- columns -----------------------------------------------------------------------------------

void Reduction::run_columns() {
  tiles_per_row_ = ceil_div(row_.size, kReduceColumns);
  const int64_t tile_count = outputs_ / row_.size * tiles_per_row_;
  const int64_t width = std::min(row_.size, kReduceColumns);
  const int64_t most = std::max<int64_t>(1, kMaxChunks / tile_count);
  const int64_t chunks = std::clamp(count_ * width / kTaskElements, int64_t(1), most);
  const auto store_tile = [&](int64_t tile, const char* acc) {
    const int64_t first =
        tile / tiles_per_row_ * row_.size + tile % tiles_per_row_ * kReduceColumns;
    store(acc, columns_of(tile), out_offset(first), row_.out);
  };
  const int64_t slot = width * tiles_.acc_bytes;
  if (chunks == 1) {
    const int64_t grain =
        std::max<int64_t>(1, kTaskElements / std::max<int64_t>(count_ * width, 1));
    parallel_for(tile_count, grain, [&](int64_t first, int64_t last) {
      alignas(64) char acc[kReduceColumns * kMaxAccBytes];
      for (int64_t tile = first; tile < last; ++tile) {
        reduce_columns(tile, 0, count_, acc);
        store_tile(tile, acc);
      }
    });
    return;
  }
  const int64_t chunk = ceil_div(ceil_div(count_, chunks), kRowBlock) * kRowBlock;
  std::vector<char> partial(static_cast<size_t>(tile_count * chunks * slot));
  parallel_for(tile_count * chunks, 1, [&](int64_t first, int64_t last) {
    // Chunk by chunk, so that threads read adjacent parts of the same rows.
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = std::min(count_, i / tile_count * chunk);
      reduce_columns(i % tile_count, begin, std::min(count_, begin + chunk),
                     partial.data() + i * slot);
    }
  });
  for (int64_t tile = 0; tile < tile_count; ++tile) {
    char* const acc = partial.data() + tile * slot;
    for (int64_t i = 1; i < chunks; ++i)
      tiles_.combine(functor_, acc, acc + i * tile_count * slot, columns_of(tile));
    store_tile(tile, acc);
  }
}

void Reduction::reduce_columns(int64_t tile, int64_t begin, int64_t end, char* acc) const {
  int64_t base = tile % tiles_per_row_ * kReduceColumns * row_.in;
  int64_t rest = tile / tiles_per_row_;
  for (size_t d = kept_.size() - 1; d-- > 0; rest /= kept_[d].size)
    base += rest % kept_[d].size * kept_[d].in;
  const int64_t n = columns_of(tile);
  tiles_.init(functor_, acc, n);
  int64_t index = begin;
  each_run(reduced_, begin, end, [&](int64_t offset, int64_t rows) {
    take_columns(at(base + offset), rows, n, index, acc);
    index += rows;
  });
}

void Reduction::take_columns(const char* x, int64_t rows, int64_t n, int64_t index,
                             char* acc) const {
  const int64_t row_stride = run_.in, stride = row_.in;
  if (same_type_ && stride == 1) {
    contiguous_columns(x, row_stride, rows, n, index, acc);
    return;
  }
  alignas(64) char buffer[kBufferBytes];
  const int64_t step = kBufferBytes / compute_bytes_ / n;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t height = std::min(step, rows - r);
    const char* const from = x + r * row_stride * element_bytes_;
    if (row_stride == n * stride)
      load_(from, stride, height * n, buffer);
    else
      for (int64_t i = 0; i < height; ++i)
        load_(from + i * row_stride * element_bytes_, stride, n, buffer + i * n * compute_bytes_);
    contiguous_columns(buffer, n, height, n, index + r, acc);
  }
}

// A few columns would leave vectors mostly empty. Where rows are contiguous, k of
// them count as one row of k·n columns, and the k groups are combined at the end.
void Reduction::contiguous_columns(const char* x, int64_t row_stride, int64_t rows, int64_t n,
                                   int64_t index, char* acc) const {
  const int64_t k = kWide / n;
  if (k > 1 && row_stride == n && rows >= 2 * k && !tiles_.indexed) {
    alignas(64) char wide[kWide * kMaxAccBytes];
    const int64_t wide_rows = rows / k;
    tiles_.init(functor_, wide, k * n);
    tiles_.columns(functor_, x, k * n, wide_rows, k * n, index, wide);
    for (int64_t i = 0; i < k; ++i)
      tiles_.combine(functor_, acc, wide + i * n * tiles_.acc_bytes, n);
    x += wide_rows * k * n * compute_bytes_;
    rows -= wide_rows * k;
  }
  if (rows > 0) tiles_.columns(functor_, x, row_stride, rows, n, index, acc);
}

}  // namespace

void run_reduction(const View& in, uint32_t mask, std::span<const View* const> out,
                   const ReduceTiles& tiles, const void* functor) {
  Reduction(in, mask, out, tiles, functor).run();
}

}  // namespace tensora::cpu::TENSORA_ISA
