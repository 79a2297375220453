#include "tensora/data/collate.h"

#include <cstring>

#include "tensora/base/thread_pool.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/shape/cat.h"

namespace tensora::data {
namespace {

constexpr int64_t kBytesPerTask = 256 * 1024;

Shape with_front(int64_t count, const Shape& sizes) {
  Shape result = sizes;
  result.insert(0, count);
  return result;
}

// An example in a message: its number in the data set where that is known, else in the batch.
std::string name_of(size_t position, std::span<const int64_t> indices) {
  return position < indices.size() ? concat("example ", indices[position])
                                   : concat("example ", position, " of the batch");
}

void require_alike(std::span<const Example> examples, std::span<const int64_t> indices) {
  const Example& first = examples[0];
  for (size_t i = 0; i < examples.size(); ++i) {
    const Example& other = examples[i];
    check(other.size() == first.size(), "collate: ", name_of(0, indices), " has ", first.size(),
          " tensors and ", name_of(i, indices), " has ", other.size());
    for (size_t k = 0; k < first.size(); ++k) {
      check(other[k].defined(), "collate: tensor ", k, " of ", name_of(i, indices),
            " is undefined");
      check(other[k].sizes() == first[k].sizes(), "collate: tensor ", k, " of ",
            name_of(0, indices), " has shape ", first[k].sizes(), " and that of ",
            name_of(i, indices), " has shape ", other[k].sizes(),
            "; give the loader a collate_fn that pads them, or make them alike");
      check(other[k].dtype() == first[k].dtype() && other[k].device() == first[k].device(),
            "collate: tensor ", k, " of ", name_of(0, indices), " is ", first[k].dtype(), " on ",
            first[k].device(), " and that of ", name_of(i, indices), " is ", other[k].dtype(),
            " on ", other[k].device());
    }
  }
}

Tensor stack_on_host(std::span<const Example> examples, size_t k, NewTensor new_tensor) {
  const Tensor& first = examples[0][k];
  const auto count = static_cast<int64_t>(examples.size());
  Tensor batch = new_tensor(with_front(count, first.sizes()), first.dtype());
  const size_t bytes = first.nbytes();
  if (bytes == 0) return batch;
  auto* const to = static_cast<char*>(batch.data_ptr());
  const int64_t grain = std::max<int64_t>(1, kBytesPerTask / static_cast<int64_t>(bytes));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Tensor source = examples[static_cast<size_t>(i)][k].contiguous();
      std::memcpy(to + static_cast<size_t>(i) * bytes, source.data_ptr(), bytes);
    }
  });
  return batch;
}

}  // namespace

Batch default_collate(std::span<const Example> examples, std::span<const int64_t> indices,
                      NewTensor new_tensor) {
  check(!examples.empty(), "collate: expected at least one example");
  require_alike(examples, indices);
  Batch batch;
  for (size_t k = 0; k < examples[0].size(); ++k) {
    if (examples[0][k].is_cpu() && !examples[0][k].requires_grad()) {
      batch.push_back(stack_on_host(examples, k, new_tensor));
      continue;
    }
    TensorList parts;
    for (const Example& example : examples) parts.push_back(example[k]);
    batch.push_back(stack(parts));
  }
  return batch;
}

Batch default_collate(std::span<const Example> examples) {
  return default_collate(
      examples, {}, [](const Shape& sizes, DType dtype) { return empty(sizes, {.dtype = dtype}); });
}

Tensor gather_rows(const Tensor& source, std::span<const int64_t> rows, NewTensor new_tensor) {
  if (!source.is_cpu() || !source.is_contiguous() || source.requires_grad())
    return index_select(source, 0, tensor(rows, {.dtype = kInt64, .device = source.device()}));
  Shape sizes = source.sizes();
  sizes[0] = static_cast<int64_t>(rows.size());
  Tensor result = new_tensor(sizes, source.dtype());
  if (result.numel() == 0) return result;
  const size_t bytes = result.nbytes() / rows.size();
  const auto* const from = static_cast<const char*>(source.data_ptr());
  auto* const to = static_cast<char*>(result.data_ptr());
  const int64_t grain = std::max<int64_t>(1, kBytesPerTask / static_cast<int64_t>(bytes));
  parallel_for(sizes[0], grain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      std::memcpy(to + i * bytes, from + static_cast<size_t>(rows[i]) * bytes, bytes);
  });
  return result;
}

}  // namespace tensora::data
