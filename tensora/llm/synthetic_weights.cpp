#include "tensora/llm/synthetic_weights.h"

#include <algorithm>

#include "tensora/core/random.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

namespace {

constexpr int64_t kPatternNumbers = 1 << 20;

/// Fills the rows behind the first `done` with copies of them, twice as many each time.
void repeat_rows(const Tensor& tensor, int64_t done) {
  for (const int64_t rows = tensor.size(0); done < rows;) {
    const int64_t more = std::min(done, rows - done);
    tensor.narrow(0, done, more).copy_(tensor.narrow(0, 0, more));
    done += more;
  }
}

}  // namespace

SyntheticWeights::SyntheticWeights(const ModelConfig& config, WeightType type, Device device,
                                   SyntheticOptions options)
    : WeightSource(device, options.positions),
      type_(std::move(type)),
      layers_(config.layers),
      hidden_size_(config.hidden_size),
      queries_(config.heads * config.head_dim),
      feed_forward_(config.feed_forward),
      options_(options) {
  check(!type_.keeps(), "synthetic_model: the type of the weights must be given");
}

bool SyntheticWeights::contains(const std::string& name) const {
  if (name == "output.weight") return !options_.tied;
  if (name.ends_with(".attn_qkv.weight")) return options_.fused;
  if (name.ends_with(".ffn_gate.weight")) return !options_.fused;
  return false;  // what is not needed: biases
}

DType SyntheticWeights::dtype_of(const std::string& name, const Shape& sizes) const {
  return type_.dtype_for(
      {.name = name,
       .sizes = sizes,
       .dtype = kFloat32,
       .layers = layers_,
       .is_head = name == (options_.tied ? "token_embd.weight" : "output.weight")});
}

DType SyntheticWeights::matrix_dtype(const std::string& name) const {
  const auto is = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  const int64_t width = is(".attn_output.") ? queries_
                        : is(".ffn_down")   ? feed_forward_
                                            : hidden_size_;
  return dtype_of(name, {hidden_size_, width});
}

const Weight& SyntheticWeights::pattern(DType dtype, int64_t width) {
  Weight& found = patterns_[{dtype, width}];
  if (found.defined()) return found;
  Generator generator(static_cast<uint64_t>(width));
  const GeneratorScope scope(generator);
  const Tensor numbers =
      randn({std::max<int64_t>(1, kPatternNumbers / width), width}, {.dtype = kFloat32}) * 0.02;
  found = convert_weight(numbers, dtype, Device()).to(device());
  return found;
}

Weight SyntheticWeights::matrix(const std::string& name, const Shape& sizes) {
  const int64_t width = sizes.back(), rows = std::max<int64_t>(1, sizes.numel() / width);
  const DType dtype = dtype_of(name, sizes);
  const Weight& part = pattern(dtype, width);
  const int64_t first = std::min(rows, part.data.size(0));
  Weight result{.data = empty({rows, width}, {.dtype = dtype, .device = device()})};
  result.data.narrow(0, 0, first).copy_(part.data.narrow(0, 0, first));
  repeat_rows(result.data, first);
  if (part.scale.defined()) {
    result.scale = empty({rows}, {.dtype = kFloat32, .device = device()});
    result.scale.narrow(0, 0, first).copy_(part.scale.narrow(0, 0, first));
    repeat_rows(result.scale, first);
  }
  return result;
}

Tensor SyntheticWeights::vector(const std::string& name, const Shape& sizes) {
  const TensorOptions options{.dtype = kFloat32, .device = device()};
  return name.ends_with(".bias") ? zeros(sizes, options) : ones(sizes, options);
}

}  // namespace tensora::llm
