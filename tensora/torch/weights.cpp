#include "tensora/torch/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <algorithm>

#include "tensora/ops.h"
#include "tensora/torch/bridge.h"

namespace tensora::torch {
namespace {

constexpr int64_t kNumbersAtOnce = int64_t{1} << 26;  // that are float32 on their way
constexpr int64_t kInt8Grain = 16;                    // LibTorch's kernel reads so many at once

bool has_dtype(const llm::Weight& weight, DType dtype) {
  return weight.data.dtype() == dtype && !weight.scale.defined();
}

// Fills rows of `out` from `row` on with the weight's numbers; returns the row behind them.
int64_t fill(const Tensor& out, int64_t row, const llm::Weight& weight) {
  const int64_t rows = weight.data.size(0);
  const int64_t step = std::max<int64_t>(1, kNumbersAtOnce / weight.data.size(1));
  for (int64_t done = 0; done < rows; done += step) {
    const int64_t count = std::min(step, rows - done);
    out.narrow(0, row + done, count).copy_(weight.rows(done, count).dequantized());
  }
  return row + rows;
}

// One view of matrices of one storage that lie one below the other; undefined where they do not.
Tensor as_one(const std::vector<llm::Projection::Part>& parts) {
  const Tensor& first = parts[0].weight.data;
  int64_t rows = 0;
  for (const auto& part : parts) {
    const Tensor& data = part.weight.data;
    if (!data.shares_storage(first) || data.size(1) != first.size(1) ||
        data.storage_offset() != first.storage_offset() + rows * first.size(1))
      return {};
    rows += data.size(0);
  }
  const Shape sizes{rows, first.size(1)};
  return make_view(first.impl().storage, sizes, contiguous_strides(sizes), first.storage_offset(),
                   first.dtype());
}

llm::Projection halves_of(const llm::Projection::Part& whole) {
  llm::Projection result({whole.name, whole.name});
  const int64_t rows = whole.weight.data.size(0) / 2;
  for (int64_t i = 0; i < 2; ++i) {
    auto& half = result.parts()[static_cast<size_t>(i)];
    half.weight = whole.weight.rows(i * rows, rows);
    if (whole.bias.defined()) half.bias = whole.bias.narrow(0, i * rows, rows);
  }
  return result;
}

}  // namespace

int64_t Matrix::bytes() const {
  int64_t sum = bias.defined() ? static_cast<int64_t>(bias.nbytes()) : 0;
  if (levels.defined()) return sum + static_cast<int64_t>(levels.nbytes() + scales.nbytes());
  if (dense.empty()) return sum + ours.bytes();
  for (const at::Tensor& part : dense) sum += static_cast<int64_t>(part.nbytes());
  return sum;
}

std::vector<at::Tensor> dense_parts(const Matrix& matrix, at::ScalarType dtype) {
  if (!matrix.dense.empty()) return matrix.dense;
  if (matrix.levels.defined())
    return {matrix.levels.to(dtype).mul_(matrix.scales.to(dtype).unsqueeze(1))};
  llm::Projection projection = matrix.ours;
  const auto& parts = projection.parts();
  const DType wanted = tensora_dtype(dtype);
  const bool shared =
      std::ranges::all_of(parts, [&](const auto& part) { return has_dtype(part.weight, wanted); });
  if (!shared) {
    int64_t rows = 0, row = 0;
    for (const auto& part : parts) rows += part.weight.data.size(0);
    const Tensor& first = parts[0].weight.data;
    const Tensor out = empty({rows, first.size(1)}, {.dtype = wanted, .device = first.device()});
    for (const auto& part : parts) row = fill(out, row, part.weight);
    return {to_torch(out)};
  }
  if (const Tensor one = as_one(parts); one.defined()) return {to_torch(one)};
  std::vector<at::Tensor> result;
  for (const auto& part : parts) result.push_back(to_torch(part.weight.data));
  return result;
}

void Loader::matrix(Matrix& target, std::vector<std::pair<std::string, int64_t>> names,
                    int64_t width, bool must_have_bias, int64_t stacked) {
  WantedMatrix wanted{.target = &target, .names = {}};
  std::vector<std::string> plain;
  for (const auto& [name, rows] : names) {
    const Shape sizes = stacked > 0 ? Shape{stacked, rows, width} : Shape{rows, width};
    source_.expect(name + ".weight", sizes);
    if (must_have_bias) source_.expect(name + ".bias", {rows});
    wanted.names.emplace_back(name, sizes);
    plain.push_back(name);
  }
  target.ours = llm::Projection(plain);
  matrices_.push_back(std::move(wanted));
}

void Loader::pair(Matrix& target, const std::string& name, int64_t rows, int64_t width) {
  matrix(target, {{name, 2 * rows}}, width);
  matrices_.back().is_pair = true;
}

void Loader::norm(Norm& target, const std::string& name, int64_t size) {
  source_.expect(name, {size});
  norms_.push_back({&target, name, size});
}

void Loader::run() {
  for (const WantedMatrix& wanted : matrices_) load(wanted);
  for (const WantedNorm& wanted : norms_) load(wanted);
}

void Loader::load(const WantedMatrix& wanted) {
  Matrix& matrix = *wanted.target;
  auto& parts = matrix.ours.parts();
  std::vector<llm::Weight*> weights;
  for (size_t i = 0; i < wanted.names.size(); ++i) {
    const auto& [name, sizes] = wanted.names[i];
    parts[i].weight = source_.matrix(name + ".weight", sizes);
    if (source_.contains(name + ".bias"))
      parts[i].bias = source_.vector(name + ".bias", {sizes[sizes.size() - 2]});
    weights.push_back(&parts[i].weight);
  }
  if (weights.size() > 1) llm::place_together(weights);
  if (wanted.is_pair) matrix.ours = halves_of(parts[0]);
  matrix.ours.finish();
  make_dense(matrix);
}

bool Loader::stays_int8(Matrix& matrix) const {
  return keeps_int8_ && !keeps_ && source_.device().is_cpu() && dtype_ == at::kBFloat16 &&
         std::ranges::all_of(matrix.ours.parts(), [](const auto& part) {
           const Tensor& data = part.weight.data;
           return data.dtype() == kInt8 && part.weight.scale.defined() && data.dim() == 2 &&
                  data.size(1) % kInt8Grain == 0;
         });
}

void Loader::make_int8(Matrix& matrix) {
  std::vector<at::Tensor> levels, scales;
  for (const auto& part : matrix.ours.parts()) {
    levels.push_back(to_torch(part.weight.data));
    scales.push_back(to_torch(part.weight.scale));
  }
  matrix.levels = levels.size() == 1 ? levels[0].contiguous() : at::cat(levels, 0);
  matrix.scales = at::cat(scales, 0).to(dtype_);
  has_int8_ = true;
}

void Loader::make_dense(Matrix& matrix) {
  const DType wanted = tensora_dtype(dtype_);
  std::vector<Tensor> biases;
  const bool int8 = stays_int8(matrix);
  bool same = true, biased = false;
  for (const auto& part : matrix.ours.parts()) {
    const llm::Weight& weight = part.weight;
    same &= has_dtype(weight, wanted);
    if (!int8 && !has_dtype(weight, wanted)) {
      converted_ = true;
      dequantized_ |= weight.data.is_quantized() || weight.scale.defined();
    }
    biased |= part.bias.defined();
    biases.push_back(part.bias.defined() ? part.bias
                                         : zeros({weight.data.size(0)},
                                                 {.dtype = kFloat32, .device = source_.device()}));
  }
  if (biased) matrix.bias = to_torch(cat(biases, 0).to(wanted));
  if (keeps_ && !same) return;
  if (int8)
    make_int8(matrix);
  else
    matrix.dense = dense_parts(matrix, dtype_);
  if (!keeps_) matrix.ours = {};
}

void Loader::load(const WantedNorm& wanted) {
  Norm& norm = *wanted.target;
  norm.ours = source_.vector(wanted.name, {wanted.size});
  norm.wide = to_torch(norm.ours);
  const at::Tensor narrow = norm.wide.to(dtype_);
  if (at::equal(narrow.to(at::kFloat), norm.wide)) norm.narrow = narrow;
}

}  // namespace tensora::torch
