// Registers nothing: functions of index_select and index_copy.
#include "tensora/ops/rnn/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/resample/pad.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

Tensor on(const std::vector<int64_t>& values, Device device) {
  return tensor(values, {.dtype = kInt64, .device = device});
}

std::vector<int64_t> host_values(const Tensor& x, std::string_view op, const char* what) {
  check(x.defined() && x.dim() == 1 && x.dtype() == kInt64, op, ": ", what,
        " must be a 1-D int64 tensor");
  const Tensor host = x.cpu();
  std::vector<int64_t> values;
  for (int64_t i = 0; i < host.numel(); ++i) values.push_back(host.at<int64_t>({i}));
  return values;
}

// The steps' sizes for lengths that do not grow.
std::vector<int64_t> sizes_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> sizes;
  for (int64_t t = 0; t < lengths[0]; ++t)
    sizes.push_back(
        std::count_if(lengths.begin(), lengths.end(), [&](int64_t length) { return length > t; }));
  return sizes;
}

// Where the rows of packed data are in a padded batch of rows.
std::vector<int64_t> row_places(const std::vector<int64_t>& batch_sizes, int64_t batch) {
  std::vector<int64_t> places;
  for (size_t t = 0; t < batch_sizes.size(); ++t)
    for (int64_t b = 0; b < batch_sizes[t]; ++b)
      places.push_back(static_cast<int64_t>(t) * batch + b);
  return places;
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    bool batch_first, bool enforce_sorted) {
  constexpr auto op = "pack_padded_sequence";
  check(input.dim() >= 2, op, ": input must have at least 2 dims, got shape ", input.sizes());
  Tensor steps = batch_first ? transpose(input, 0, 1) : input;
  const int64_t longest = steps.size(0), batch = steps.size(1);
  check(static_cast<int64_t>(lengths.size()) == batch && batch > 0, op, ": expected a length for ",
        "each of ", batch, " sequences, got ", lengths.size());
  for (int64_t length : lengths)
    check(length > 0 && length <= longest, op, ": lengths must be between 1 and ", longest,
          ", got ", length);
  std::vector<int64_t> sorted = lengths;
  PackedSequence result;
  if (!std::is_sorted(lengths.rbegin(), lengths.rend())) {
    check(!enforce_sorted, op, ": lengths must not grow, unless enforce_sorted is false");
  }
  if (!enforce_sorted) {
    std::vector<int64_t> order(lengths.size()), back(lengths.size());
    std::iota(order.begin(), order.end(), 0);
    const auto length_of = [&](int64_t b) { return lengths[static_cast<size_t>(b)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
    for (size_t i = 0; i < order.size(); ++i) {
      sorted[i] = length_of(order[i]);
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    result.sorted_indices = on(order, input.device());
    result.unsorted_indices = on(back, input.device());
    steps = index_select(steps, 1, result.sorted_indices);
  }
  const std::vector<int64_t> batch_sizes = sizes_of(sorted);
  result.batch_sizes = on(batch_sizes, Device("cpu"));
  result.data =
      index_select(flatten(steps, 0, 1), 0, on(row_places(batch_sizes, batch), input.device()));
  return result;
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted) {
  return pack_padded_sequence(input, host_values(lengths, "pack_padded_sequence", "lengths"),
                              batch_first, enforce_sorted);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                               double padding_value,
                                               std::optional<int64_t> total_length) {
  constexpr auto op = "pad_packed_sequence";
  const std::vector<int64_t> batch_sizes = host_values(sequence.batch_sizes, op, "batch_sizes");
  check(!batch_sizes.empty(), op, ": batch_sizes must not be empty");
  const int64_t batch = batch_sizes[0], longest = static_cast<int64_t>(batch_sizes.size());
  check(!total_length || *total_length >= longest, op, ": total_length must be at least ", longest,
        ", the longest sequence's, got ", total_length.value_or(0));
  const Tensor& data = sequence.data;
  Shape sizes = data.sizes();
  sizes[0] = total_length.value_or(longest) * batch;
  const Tensor blank = full(sizes, padding_value, {.dtype = data.dtype(), .device = data.device()});
  Tensor rows = index_copy(blank, 0, on(row_places(batch_sizes, batch), data.device()), data);
  Tensor steps = unflatten(rows, 0, {total_length.value_or(longest), batch});
  std::vector<int64_t> lengths(static_cast<size_t>(batch), 0);
  for (int64_t size : batch_sizes)
    for (int64_t b = 0; b < size; ++b) ++lengths[static_cast<size_t>(b)];
  if (sequence.unsorted_indices.defined()) {
    steps = index_select(steps, 1, sequence.unsorted_indices);
    const std::vector<int64_t> back = host_values(sequence.unsorted_indices, op, "indices");
    const std::vector<int64_t> sorted = lengths;
    for (size_t i = 0; i < back.size(); ++i) lengths[i] = sorted[static_cast<size_t>(back[i])];
  }
  return {batch_first ? transpose(steps, 0, 1) : steps, on(lengths, Device("cpu"))};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value) {
  constexpr auto op = "pad_sequence";
  check(!sequences.empty(), op, ": expected at least one sequence");
  int64_t longest = 0;
  for (const Tensor& sequence : sequences) {
    check(sequence.dim() > 0, op, ": sequences must have at least one dim");
    longest = std::max(longest, sequence.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& sequence : sequences) {
    std::vector<int64_t> amounts(static_cast<size_t>(2 * sequence.dim()), 0);
    amounts.back() = longest - sequence.size(0);
    padded.push_back(amounts.back() == 0 ? sequence
                                         : pad(sequence, amounts, "constant", padding_value));
  }
  return called_as(op, [&] { return stack(padded, batch_first ? 0 : 1); });
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  std::vector<int64_t> lengths;
  for (const Tensor& sequence : sequences) {
    check(sequence.dim() > 0, "pack_sequence: sequences must have at least one dim");
    lengths.push_back(sequence.size(0));
  }
  return pack_padded_sequence(pad_sequence(sequences), lengths, false, enforce_sorted);
}

}  // namespace tensora
