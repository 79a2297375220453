#include "tensora/llm/projection.h"

#include <algorithm>

#include "tensora/llm/lora.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

Projection::Projection(std::vector<std::string> names) {
  for (std::string& name : names) parts_.push_back({.name = std::move(name)});
}

void Projection::finish() {
  weights_.clear();
  scales_.clear();
  bool scaled = false, biased = false;
  for (const Part& part : parts_) {
    weights_.push_back(part.weight.data);
    scales_.push_back(part.weight.scale);
    scaled |= part.weight.scale.defined();
    biased |= part.bias.defined();
  }
  if (!scaled) scales_.clear();
  if (!biased) return;
  std::vector<Tensor> biases;
  for (const Part& part : parts_)
    biases.push_back(part.bias.defined()
                         ? part.bias
                         : zeros({part.weight.data.size(0)},
                                 {.dtype = kFloat32, .device = part.weight.data.device()}));
  bias_ = cat(biases, 0);
}

Tensor Projection::operator()(const Input& x, const Batch& batch, const Result& result) const {
  Tensor y = quant_linear(x.x, weights_,
                          {.scales = scales_,
                           .bias = bias_,
                           .residual = result.residual,
                           .dtype = result.dtype,
                           .norm = x.norm,
                           .eps = x.eps});
  if (batch.adapters.empty()) [[likely]]
    return y;
  int64_t column = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    add_adapters(x.x, batch, i, y, column);
    column += parts_[i].weight.data.size(0);
  }
  return y;
}

void Projection::add_adapters(const Tensor& x, const Batch& batch, size_t i, const Tensor& y,
                              int64_t column) const {
  const int64_t columns = parts_[i].weight.data.size(0);
  for (const AdapterUse& use : batch.adapters) {
    const LoraAdapter::Pair* pair = use.adapter->find(parts_[i].name);
    if (!pair || use.begin >= use.end) continue;
    const Tensor rows = x.narrow(0, use.begin, use.end - use.begin);
    const Tensor side =
        matmul(matmul(rows, pair->down.t()), pair->up.t()) * (use.scale * pair->scale);
    const Tensor part = y.narrow(0, use.begin, use.end - use.begin).narrow(1, column, columns);
    part.add_(side.to(y.dtype()));
  }
}

int64_t Projection::bytes() const {
  int64_t sum = bias_.defined() ? static_cast<int64_t>(bias_.nbytes()) : 0;
  for (const Part& part : parts_) sum += part.weight.bytes();
  return sum;
}

}  // namespace tensora::llm
