#include "tensora/llm/model_shard.h"

#include <algorithm>
#include <numeric>

#include "tensora/ops.h"

namespace tensora::llm {
namespace {

using models::IndexRange;

IndexRange scaled(const IndexRange& range, int64_t size) {
  return {range.begin * size, range.end * size};
}

// How many numbers of a row stay together in the matrices of this kind, in all layers.
int64_t block_of(const ModelConfig& config, const WeightSource& weights, const std::string& kind) {
  int64_t block = 1;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const DType dtype = weights.matrix_dtype(concat("blk.", layer, ".", kind, ".weight"));
    block = std::lcm(block, dtype_info(dtype).block_numbers);
  }
  return block;
}

// The largest of these units that gives every rank a part: kernels like whole vectors.
int64_t feed_forward_unit(int64_t size, int64_t block, int ranks) {
  for (const int64_t unit : {int64_t{256}, int64_t{64}, int64_t{32}, int64_t{8}, int64_t{1}})
    if (unit % block == 0 && size % unit == 0 && size / unit >= ranks) return unit;
  fail("a feed-forward size of ", size, " in blocks of ", block, " cannot be divided over ", ranks,
       " ranks");
}

// The numbers of some columns, as a matrix of its own. Quantized rows are cut between their blocks.
Tensor columns_of(const Tensor& data, const IndexRange& columns) {
  if (!data.is_quantized()) return data.narrow(1, columns.begin, columns.size()).contiguous();
  const DType dtype = data.dtype();
  const int64_t block = dtype_info(dtype).block_numbers;
  ensure(columns.begin % block == 0 && columns.end % block == 0, "columns inside a block");
  const auto bytes = [&](int64_t numbers) {
    return static_cast<int64_t>(bytes_of(dtype, numbers));
  };
  const Shape raw{data.size(0), bytes(data.size(1))};
  const int64_t offset = bytes(data.storage_offset());
  const Tensor all = make_view(data.impl().storage, raw, contiguous_strides(raw), offset, kUInt8);
  const Tensor cut =
      all.narrow(1, bytes(columns.begin), bytes(columns.size())).clone(MemoryFormat::contiguous);
  const Shape sizes{data.size(0), columns.size()};
  return make_view(cut.impl().storage, sizes, contiguous_strides(sizes), 0, dtype);
}

Weight rows_of(const Weight& whole, const std::vector<IndexRange>& ranges) {
  if (ranges.size() == 1) return whole.rows(ranges[0].begin, ranges[0].size());
  int64_t rows = 0;
  for (const IndexRange& range : ranges) rows += range.size();
  const Device device = whole.data.device();
  Weight result{
      .data = empty({rows, whole.data.size(1)}, {.dtype = whole.data.dtype(), .device = device})};
  if (whole.scale.defined()) result.scale = empty({rows}, {.dtype = kFloat32, .device = device});
  int64_t row = 0;
  for (const IndexRange& range : ranges) {
    const Weight from = whole.rows(range.begin, range.size()), to = result.rows(row, range.size());
    to.data.copy_(from.data);
    if (to.scale.defined()) to.scale.copy_(from.scale);
    row += range.size();
  }
  return result;
}

}  // namespace

ModelShard ModelShard::make(const ModelConfig& config, const WeightSource& weights, int ranks,
                            int rank) {
  const int64_t attention = block_of(config, weights, "attn_output");
  const int64_t unit = attention / std::gcd(attention, config.head_dim);
  const std::string down = config.experts > 0 ? "ffn_down_exps" : "ffn_down";
  const int64_t step =
      feed_forward_unit(config.feed_forward, block_of(config, weights, down), ranks);
  check(config.vocab_size >= ranks, "a vocabulary of ", config.vocab_size,
        " tokens cannot be divided over ", ranks, " ranks");
  return {
      .heads = models::head_part(config.heads, config.kv_heads, ranks, rank, unit),
      .feed_forward = scaled(models::balanced_part(config.feed_forward / step, ranks, rank), step),
      .vocabulary = models::balanced_part(config.vocab_size, ranks, rank)};
}

ModelConfig ModelShard::local(const ModelConfig& config) const {
  ModelConfig own = config;
  own.heads = heads.query.size();
  own.kv_heads = heads.kv_slots();
  own.feed_forward = feed_forward.size();
  return own;
}

template <class Load>
Weight SharedWeights::take(const std::string& name, const Load& load) {
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(name);
  if (found == entries_.end()) found = entries_.emplace(name, Entry{load(), ranks_}).first;
  Weight weight = found->second.weight;
  if (--found->second.wanted == 0) entries_.erase(found);
  return weight;
}

Weight SharedWeights::matrix(const std::string& name, const Shape& sizes) {
  return take(name, [&] { return source_.matrix(name, sizes); });
}
Tensor SharedWeights::vector(const std::string& name, const Shape& sizes) {
  return take(name, [&] { return Weight{source_.vector(name, sizes)}; }).data;
}

ShardedWeights::ShardedWeights(WeightSource& whole, const ModelConfig& config, ModelShard shard)
    : WeightSource(whole.device(), whole.positions()),
      whole_(whole),
      config_(config),
      shard_(std::move(shard)) {}

ShardedWeights::Selection ShardedWeights::select(const std::string& name,
                                                 const Shape& sizes) const {
  const ModelConfig& c = config_;
  const size_t dot = name.starts_with("blk.") ? name.find('.', 4) : name.npos;
  const std::string word = dot == name.npos ? name.substr(0, name.find('.'))
                                            : name.substr(dot + 1, name.rfind('.') - dot - 1);
  const bool bias = name.ends_with(".bias");
  const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  const IndexRange query = scaled(shard_.heads.query, c.head_dim);
  const auto sized = [&](int64_t rows, int64_t width) {
    return bias ? Shape{rows} : Shape{rows, width};
  };
  std::vector<IndexRange> kv;
  if (shard_.heads.repeat.empty()) kv.push_back(scaled(shard_.heads.kv, c.head_dim));
  for (const int64_t slot : shard_.heads.repeat) {
    const int64_t head = shard_.heads.kv.begin + slot;
    kv.push_back(scaled({head, head + 1}, c.head_dim));
  }
  const auto behind = [](std::vector<IndexRange> ranges, int64_t offset) {
    for (IndexRange& range : ranges) range = {range.begin + offset, range.end + offset};
    return ranges;
  };
  if (word == "output") return {sized(c.vocab_size, c.hidden_size), {shard_.vocabulary}};
  if (word == "attn_q") return {sized(queries, c.hidden_size), {query}};
  if (word == "attn_k" || word == "attn_v") return {sized(keys, c.hidden_size), kv};
  if (word == "attn_qkv") {
    Selection all{sized(queries + 2 * keys, c.hidden_size), {query}};
    for (const int64_t offset : {queries, queries + keys})
      for (const IndexRange& range : behind(kv, offset)) all.rows.push_back(range);
    return all;
  }
  const IndexRange& hidden = shard_.feed_forward;
  if (word == "ffn_up" && !whole_.contains(name.substr(0, dot + 1) + "ffn_gate.weight"))
    return {sized(2 * c.feed_forward, c.hidden_size),
            {hidden, behind({hidden}, c.feed_forward).front()}};
  if (word == "ffn_gate" || word == "ffn_up")
    return {sized(c.feed_forward, c.hidden_size), {hidden}};
  if (word == "ffn_gate_exps" || word == "ffn_up_exps") {
    Selection all{{c.experts, c.feed_forward, c.hidden_size}};
    for (int64_t expert = 0; expert < c.experts; ++expert)
      all.rows.push_back(behind({hidden}, expert * c.feed_forward).front());
    return all;
  }
  if (word == "ffn_down_exps")
    return {.whole = {c.experts, c.hidden_size, c.feed_forward}, .columns = hidden};
  if (word == "attn_output" || word == "ffn_down") {
    const bool attends = word == "attn_output";
    if (bias) return {.whole = {c.hidden_size}, .first_only = true};
    return {.whole = {c.hidden_size, attends ? queries : c.feed_forward},
            .columns = attends ? query : hidden};
  }
  return {sizes};  // embedding, norms, router
}

void ShardedWeights::expect(const std::string& name, const Shape& sizes) const {
  whole_.expect(name, select(name, sizes).whole);
}

Weight ShardedWeights::matrix(const std::string& name, const Shape& sizes) {
  const Selection selection = select(name, sizes);
  const Weight whole = whole_.matrix(name, selection.whole);
  if (!selection.rows.empty()) return rows_of(whole, selection.rows);
  if (selection.columns.size() == 0) return whole;
  return {.data = columns_of(whole.data, selection.columns), .scale = whole.scale};
}

Tensor ShardedWeights::vector(const std::string& name, const Shape& sizes) {
  const Selection selection = select(name, sizes);
  const Tensor whole = whole_.vector(name, selection.whole);
  if (selection.first_only && shard_.group->rank() > 0) return zeros_like(whole);
  if (selection.rows.empty()) return whole;
  TensorList parts;
  for (const IndexRange& range : selection.rows)
    parts.push_back(whole.narrow(0, range.begin, range.size()));
  return cat(parts, 0);
}

}  // namespace tensora::llm
