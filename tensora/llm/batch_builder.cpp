#include "tensora/llm/batch_builder.h"

#include <algorithm>
#include <bit>

#include "tensora/core/pinned.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

// Of a choice; their order is that of sample_tokens.
constexpr int64_t kNumbers = 3, kIntegers = 3;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <class T>
T* at(const Tensor& memory, int64_t place) {
  return reinterpret_cast<T*>(static_cast<char*>(memory.data_ptr()) + place);
}

Tensor part(const Tensor& memory, int64_t place, const Shape& sizes, DType dtype) {
  return make_view(memory.impl().storage, sizes, contiguous_strides(sizes),
                   place / static_cast<int64_t>(element_size(dtype)), dtype);
}

}  // namespace

BatchBuilder::BatchBuilder(const BatchLimits& limits, int64_t block_size, Device device)
    : limits_(limits), block_size_(block_size), device_(device) {
  int64_t end = 0;
  const auto place = [&](int64_t count, int64_t bytes) {
    const int64_t begin = end;
    end = aligned(end + count * bytes);
    return begin;
  };
  tokens_at_ = place(limits.tokens, 8);
  positions_at_ = place(limits.tokens, 8);
  slots_at_ = place(limits.tokens, 8);
  rows_at_ = place(limits.tokens, 8);
  starts_at_ = place(limits.sequences + 1, 4);
  lengths_at_ = place(limits.sequences, 4);
  numbers_at_ = place(limits.choices * kNumbers, 8);
  integers_at_ = place(limits.choices * kIntegers, 8);
  targets_at_ = place(limits.overlaps ? limits.sequences : 0, 8);
  sources_at_ = place(limits.overlaps ? limits.sequences : 0, 8);
  // A row of the table has the next power of two of blocks.
  const auto width = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(limits.blocks)));
  table_at_ = place(limits.sequences * width, 4);
  memory_ = make_tensor({end}, kUInt8, device);
  if (device.is_cpu()) {
    host_ = memory_;
  } else if (const PinnedMemory* pinned = pinned_memory(device.type)) {
    host_ = pinned->empty({end}, kUInt8);
    if (limits.overlaps) other_host_ = pinned->empty({end}, kUInt8);
    is_pinned_ = true;
  } else {
    host_ = make_tensor({end}, kUInt8, Device());
  }
}

// Whether the device has made the batch of this step from the last one.
bool BatchBuilder::follows(const Step& step) const {
  if (step.slices.size() != widths_.size() || !step.copies.empty()) return false;
  for (size_t i = 0; i < widths_.size(); ++i) {
    const Slice& slice = step.slices[i];
    const Sequence& sequence = *slice.sequence;
    if (slice.count != 1 || slice.logits != 1 || slice.first < sequence.size() ||
        sequence.row != static_cast<int64_t>(i) || sequence.blocks.list.size() != widths_[i])
      return false;
  }
  return true;
}

// One that the device has chosen is fetched from there; see `build`.
int64_t BatchBuilder::token_of(const Sequence& sequence, int64_t place, int64_t target) {
  if (place < sequence.size()) return sequence.tokens[static_cast<size_t>(place)];
  if (sequence.pending == 0) return sequence.draft[static_cast<size_t>(place - sequence.size())];
  at<int64_t>(host_, targets_at_)[unknown_] = target;
  at<int64_t>(host_, sources_at_)[unknown_++] = sequence.row;
  return 0;
}

BatchBuilder::Sizes BatchBuilder::fill(const Step& step) {
  auto* tokens = at<int64_t>(host_, tokens_at_);
  auto* positions = at<int64_t>(host_, positions_at_);
  auto* slots = at<int64_t>(host_, slots_at_);
  auto* rows = at<int64_t>(host_, rows_at_);
  auto* starts = at<int32_t>(host_, starts_at_);
  auto* lengths = at<int32_t>(host_, lengths_at_);
  auto* table = at<int32_t>(host_, table_at_);
  size_t longest = 1;
  for (const Slice& slice : step.slices)
    longest = std::max(longest, slice.sequence->blocks.list.size());
  const auto width = static_cast<int64_t>(std::bit_ceil(longest));
  int64_t token = 0, row = 0, index = 0;
  batch_.max_query = batch_.single_queries = batch_.max_length = unknown_ = 0;
  widths_.clear();
  for (const Slice& slice : step.slices) {
    Sequence& sequence = *slice.sequence;
    const int32_t* blocks = sequence.blocks.list.data();
    const int64_t length = slice.first + slice.count;
    starts[index] = static_cast<int32_t>(token);
    lengths[index] = static_cast<int32_t>(length);
    for (int64_t i = slice.first; i < length; ++i, ++token) {
      tokens[token] = token_of(sequence, i, token);
      positions[token] = i;
      slots[token] = int64_t{blocks[i / block_size_]} * block_size_ + i % block_size_;
    }
    for (int64_t i = token - slice.logits; i < token; ++i) rows[row++] = i;
    sequence.row = row - 1;
    widths_.push_back(sequence.blocks.list.size());
    int32_t* line = table + index * width;
    std::fill(std::copy_n(blocks, sequence.blocks.list.size(), line), line + width, 0);
    if (slice.count == 1 && batch_.single_queries == index) ++batch_.single_queries;
    batch_.max_query = std::max(batch_.max_query, slice.count);
    batch_.max_length = std::max(batch_.max_length, length + sequence.ahead);
    ++index;
  }
  starts[index] = static_cast<int32_t>(token);
  return {token, index, row, width, fill_choices(step, row)};
}

// The device chooses all tokens of a step or none: returns how many.
int64_t BatchBuilder::fill_choices(const Step& step, int64_t rows) {
  auto* numbers = at<double>(host_, numbers_at_);
  auto* integers = at<int64_t>(host_, integers_at_);
  if (rows > limits_.choices) return 0;
  for (const Slice& slice : step.slices) {
    if (slice.sequence->choices.size() != static_cast<size_t>(slice.logits)) return 0;
    for (const TokenChoice& choice : slice.sequence->choices) {
      for (double number : {choice.temperature, choice.top_p, choice.min_p}) *numbers++ = number;
      for (int64_t integer : {choice.top_k, choice.seed, choice.draw}) *integers++ = integer;
    }
  }
  return rows;
}

void BatchBuilder::shape(const Sizes& sizes) {
  batch_.tokens = part(memory_, tokens_at_, {sizes.tokens}, kInt64);
  batch_.positions = part(memory_, positions_at_, {sizes.tokens}, kInt64);
  batch_.slots = part(memory_, slots_at_, {sizes.tokens}, kInt64);
  batch_.logit_rows = part(memory_, rows_at_, {sizes.rows}, kInt64);
  batch_.query_starts = part(memory_, starts_at_, {sizes.sequences + 1}, kInt32);
  batch_.lengths = part(memory_, lengths_at_, {sizes.sequences}, kInt32);
  batch_.block_table = part(memory_, table_at_, {sizes.sequences, sizes.blocks}, kInt32);
  batch_.choice_numbers = batch_.choice_integers = {};
  if (sizes.choices > 0) {
    batch_.choice_numbers = part(memory_, numbers_at_, {sizes.choices, kNumbers}, kFloat64);
    batch_.choice_integers = part(memory_, integers_at_, {sizes.choices, kIntegers}, kInt64);
  }
  const int64_t used = table_at_ + sizes.sequences * sizes.blocks * 4;
  memory_used_ = part(memory_, 0, {used}, kUInt8);
  sizes_ = sizes;
}

void BatchBuilder::add_adapters(const Step& step) {
  batch_.adapters.clear();
  int64_t token = 0;
  for (const Slice& slice : step.slices) {
    const Sequence& sequence = *slice.sequence;
    if (sequence.adapter)
      batch_.adapters.push_back(
          {sequence.adapter, token, token + slice.count, sequence.adapter_scale});
    token += slice.count;
  }
}

const Batch& BatchBuilder::build(const Step& step, const StepBefore& before) {
  if (before.has_advanced && follows(step)) {
    ++batch_.max_length;
    return batch_;
  }
  if (other_host_.defined()) std::swap(host_, other_host_);
  const Sizes sizes = fill(step);
  if (!(sizes == sizes_)) shape(sizes);
  add_adapters(step);
  if (is_pinned_)
    pinned_memory(device_.type)
        ->copy_async(memory_used_, part(host_, 0, memory_used_.sizes(), kUInt8));
  else if (!device_.is_cpu())
    copy_bytes(memory_used_.data_ptr(), device_, host_.data_ptr(), Device(), memory_used_.nbytes());
  if (unknown_ == 0) return batch_;
  // A token that could not be chosen (-1) fails its request as soon as the host sees it.
  const Tensor sources = part(memory_, sources_at_, {unknown_}, kInt64);
  index_copy_(batch_.tokens, 0, part(memory_, targets_at_, {unknown_}, kInt64),
              index_select(clamp(before.chosen, 0), 0, sources));
  return batch_;
}

}  // namespace tensora::llm
