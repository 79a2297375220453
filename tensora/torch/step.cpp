#include "tensora/torch/step.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tensora/torch/bridge.h"

namespace tensora::torch {
namespace {

// Whether the sequences of a decode step have one length and blocks that follow one another: their
// part of the cache is then one tensor.
bool is_even(const int32_t* lengths, const int32_t* table, int64_t count) {
  for (int64_t s = 1; s < count; ++s)
    if (lengths[s] != lengths[0] || table[s] != table[0] + s) return false;
  return count > 1;
}

}  // namespace

RopeTable RopeTable::from(const Tensor& table, bool in_halves, at::ScalarType dtype) {
  const at::Tensor both = to_torch(table);
  const int64_t half = both.size(1) / 2;
  const at::Tensor cos = both.narrow(1, 0, half), sin = both.narrow(1, half, half);
  if (in_halves) return {at::cat({cos, cos}, 1).to(dtype), at::cat({-sin, sin}, 1).to(dtype)};
  return {at::stack({cos, cos}, 2).flatten(1).to(dtype),
          at::stack({-sin, sin}, 2).flatten(1).to(dtype)};
}

Step::Step(const llm::Batch& batch, llm::PagedCache& cache, const llm::ModelConfig& config)
    : batch_(batch), cache_(cache), config_(config), block_size_(cache.block_size()) {}

const RopeTable& Step::angles(const RopeTable& table, bool local) {
  std::optional<RopeTable>& found = angles_[local ? 1 : 0];
  if (!found) {
    const at::Tensor positions = to_torch(batch_.positions);
    found = RopeTable{table.cos.index_select(0, positions).unsqueeze(1),
                      table.sin.index_select(0, positions).unsqueeze(1)};
  }
  return *found;
}

void Step::store(int64_t layer, const at::Tensor& keys, const at::Tensor& values) {
  if (!blocks_) {
    at::Tensor slots = to_torch(batch_.slots);
    // A token that is not kept (-1) stands behind the end of a full sequence, whose result nobody
    // wants: it may overwrite the last place of its own sequence.
    if (is_decode()) {
      const at::Tensor table = to_torch(batch_.block_table);
      const at::Tensor last =
          (table.select(1, table.size(1) - 1).to(at::kLong) + 1).mul_(block_size_).sub_(1);
      slots = at::where(slots < 0, last, slots);
    }
    blocks_ = slots.div(block_size_, "floor");
    places_ = slots.remainder(block_size_);
  }
  const auto at_layer = static_cast<size_t>(layer);
  const auto write = [&](const Tensor& cache, const at::Tensor& numbers) {
    at::Tensor rows = to_torch(cache).transpose(1, 2);  // blocks, places, heads, numbers
    rows.index_put_({*blocks_, *places_}, numbers.to(rows.scalar_type()));
  };
  write(cache_.keys[at_layer], keys);
  write(cache_.values[at_layer], values);
}

// One block for each sequence is a static cache.
bool Step::can_flash(int64_t layer, const at::Tensor& queries) const {
  const Tensor& keys = cache_.keys[static_cast<size_t>(layer)];
  const at::ScalarType dtype = queries.scalar_type();
  return queries.is_cuda() && (dtype == at::kHalf || dtype == at::kBFloat16) &&
         torch_dtype(keys.dtype()) == dtype && config_.attention_softcap == 0 &&
         config_.head_dim % 8 == 0 && config_.head_dim <= 256 && batch_.block_table.size(1) == 1;
}

at::Tensor Step::attend(int64_t layer, const at::Tensor& queries, int64_t window) {
  if (can_flash(layer, queries)) return flash(layer, queries, window);
  if (queries.is_cuda() && is_decode()) return attend_decode(layer, queries, window);
  return attend_each(layer, queries, window);
}

// Note [Flash attention over a static cache]
// FlashAttention takes sequences of different lengths from one tensor of rows, [rows, kv_heads,
// head_dim], whose strides are free, with the row where each sequence begins and the number of rows
// in use. The cache is [blocks, kv_heads, block_size, head_dim], a block for each sequence. Seen
// with the strides (head_dim, block_size · head_dim, 1), block b begins at row b · kv_heads ·
// block_size. So the device finds the sequences in any order, and nothing is copied.
at::Tensor Step::flash(int64_t layer, const at::Tensor& queries, int64_t window) {
  const int64_t heads = config_.kv_heads, size = config_.head_dim;
  const auto rows_of = [&](const Tensor& cache) {
    const at::Tensor whole = to_torch(cache);
    const int64_t rows = whole.size(0) * heads * block_size_ - (heads - 1) * block_size_;
    return whole.as_strided({rows, heads, size}, {size, block_size_ * size, 1});
  };
  if (!key_starts_) {
    const at::Tensor table = to_torch(batch_.block_table).select(1, 0) * (heads * block_size_);
    key_starts_ = at::cat({table, table.narrow(0, 0, 1)}).to(at::kInt);
  }
  const auto at_layer = static_cast<size_t>(layer);
  const bool few = batch_.max_query == 1;
  const auto left = window > 0 ? std::optional<int64_t>(window - 1) : std::nullopt;
  const auto right = window > 0 ? std::optional<int64_t>(0) : std::nullopt;
  return std::get<0>(at::_flash_attention_forward(
      queries, rows_of(cache_.keys[at_layer]), rows_of(cache_.values[at_layer]),
      to_torch(batch_.query_starts), *key_starts_, batch_.max_query,
      std::min(batch_.max_length, block_size_), 0.0, !few || window > 0, false,
      config_.attention_scale, left, right, to_torch(batch_.lengths)));
}

// Scores and sums by one of LibTorch's kernels; with a cap, which none of them knows, step by step.
at::Tensor Step::product(const at::Tensor& queries, const at::Tensor& keys,
                         const at::Tensor& values, const at::Tensor& mask, bool causal) const {
  const double cap = config_.attention_softcap;
  const bool grouped = config_.heads != config_.kv_heads;
  std::optional<at::Tensor> given;
  if (mask.defined()) given = mask;
  if (cap == 0)
    return at::scaled_dot_product_attention(queries, keys, values, given, 0.0, causal && !given,
                                            config_.attention_scale, grouped);
  const int64_t times = config_.heads / config_.kv_heads;
  const auto repeated = [&](const at::Tensor& x) {
    return times == 1 ? x : x.repeat_interleave(times, 1);
  };
  at::Tensor scores = queries.matmul(repeated(keys).transpose(-1, -2)).to(at::kFloat);
  scores = scores.mul_(config_.attention_scale / cap).tanh_().mul_(cap);
  if (mask.defined()) scores = scores.masked_fill_(mask.logical_not(), -INFINITY);
  return at::softmax(scores, -1).to(queries.scalar_type()).matmul(repeated(values));
}

// All sequences at once, with a mask for their lengths: nothing is asked of the device.
at::Tensor Step::attend_decode(int64_t layer, const at::Tensor& queries, int64_t window) {
  const auto at_layer = static_cast<size_t>(layer);
  const at::Tensor table = to_torch(batch_.block_table);
  const int64_t blocks = table.size(1), count = sequences();
  const int64_t length =
      blocks == 1 ? std::min(batch_.max_length, block_size_) : blocks * block_size_;
  const auto gather = [&](const Tensor& cache) {
    at::Tensor whole = to_torch(cache);
    if (blocks == 1) whole = whole.narrow(2, 0, length);
    const at::Tensor rows = whole.index_select(0, table.flatten().to(at::kLong));
    return rows.view({count, blocks, config_.kv_heads, -1, config_.head_dim})
        .transpose(1, 2)
        .reshape({count, config_.kv_heads, length, config_.head_dim})
        .to(queries.scalar_type());
  };
  std::optional<at::Tensor>& mask = masks_[window > 0 ? 1 : 0];
  if (!mask) {
    const at::Tensor lengths = to_torch(batch_.lengths).unsqueeze(1);
    const at::Tensor places = at::arange(length, lengths.options()).unsqueeze(0);
    at::Tensor seen = places < lengths;
    if (window > 0) seen = seen.logical_and(places >= lengths - window);
    mask = seen.view({count, 1, 1, length});
  }
  return product(queries.unsqueeze(2), gather(cache_.keys[at_layer]),
                 gather(cache_.values[at_layer]), *mask, false)
      .squeeze(2);
}

const at::Tensor& Step::host(std::optional<at::Tensor>& copy, const Tensor& tensor) const {
  if (!copy) copy = to_torch(tensor).to(at::kCPU);
  return *copy;
}

at::Tensor Step::attend_each(int64_t layer, const at::Tensor& queries, int64_t window) {
  const auto at_layer = static_cast<size_t>(layer);
  const auto* starts = host(starts_, batch_.query_starts).const_data_ptr<int32_t>();
  const auto* lengths = host(lengths_, batch_.lengths).const_data_ptr<int32_t>();
  const auto* table = host(table_, batch_.block_table).const_data_ptr<int32_t>();
  const at::Tensor keys = to_torch(cache_.keys[at_layer]),
                   values = to_torch(cache_.values[at_layer]);
  const int64_t width = batch_.block_table.size(1);
  if (is_decode() && width == 1 && window == 0 && is_even(lengths, table, sequences())) {
    const auto part = [&](const at::Tensor& cache) {
      return cache.narrow(0, table[0], sequences())
          .narrow(2, 0, std::min<int64_t>(lengths[0], block_size_))
          .to(queries.scalar_type());
    };
    return product(queries.unsqueeze(2), part(keys), part(values), {}, false).squeeze(2);
  }
  std::vector<at::Tensor> results;
  for (int64_t s = 0; s < sequences(); ++s) {
    const int64_t length = lengths[s], count = starts[s + 1] - starts[s];
    if (count == 0) continue;
    const auto gather = [&](const at::Tensor& cache) {
      std::vector<at::Tensor> parts;
      for (int64_t done = 0; done < length; done += block_size_)
        parts.push_back(cache.select(0, table[s * width + done / block_size_])
                            .narrow(1, 0, std::min(block_size_, length - done)));
      const at::Tensor all = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
      return all.unsqueeze(0).to(queries.scalar_type());
    };
    // A mask is needed unless each query sees all keys before it, and there are no others.
    at::Tensor mask;
    const bool cut = window > 0 && window < length;
    if (cut || (count > 1 && (count != length || config_.attention_softcap != 0))) {
      const at::Tensor row = at::arange(length - count, length, queries.device()).unsqueeze(1);
      const at::Tensor column = at::arange(length, queries.device()).unsqueeze(0);
      mask = column <= row;
      if (cut) mask = mask.logical_and(column > row - window);
    }
    const at::Tensor part = queries.narrow(0, starts[s], count).transpose(0, 1).unsqueeze(0);
    results.push_back(
        product(part, gather(keys), gather(values), mask, count > 1).squeeze(0).transpose(0, 1));
  }
  return results.size() == 1 ? results[0].contiguous() : at::cat(results, 0);
}

}  // namespace tensora::torch
