#pragma once

// LibTorch's names for what is called otherwise here, so that a program written for it compiles
// with `namespace torch = tensora;`. Aliases only; the declarations they stand for say what they
// do.

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/ops/index/index.h"

namespace tensora {

using ScalarType = DType;
using Dtype = DType;
using IntArrayRef = Shape;

inline constexpr DType kByte = kUInt8, kChar = kInt8, kShort = kInt16, kInt = kInt32,
                       kLong = kInt64, kHalf = kFloat16, kFloat = kFloat32, kDouble = kFloat64;
inline constexpr DeviceType kCPU = DeviceType::cpu, kCUDA = DeviceType::cuda,
                            kMeta = DeviceType::meta;
inline constexpr Layout kStrided = Layout::strided;

inline DType get_default_dtype() { return default_dtype(); }

using NoGradGuard = no_grad;
using AutoGradMode = GradModeGuard;
using InferenceMode = inference_mode;

namespace indexing {
using tensora::Ellipsis;
using tensora::None;
using tensora::Slice;
using tensora::TensorIndex;
}  // namespace indexing

namespace autograd {
using Variable = Tensor;
using variable_list = std::vector<Tensor>;

/// `tensora::grad` with LibTorch's list of parameters.
inline variable_list grad(const variable_list& outputs, const variable_list& inputs,
                          const variable_list& grad_outputs = {},
                          std::optional<bool> retain_graph = {}, bool create_graph = false,
                          bool allow_unused = false) {
  return tensora::grad(outputs, inputs, grad_outputs,
                       {.retain_graph = retain_graph.value_or(create_graph),
                        .create_graph = create_graph,
                        .allow_unused = allow_unused});
}
inline void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
                     std::optional<bool> retain_graph = {}, bool create_graph = false) {
  tensora::backward(
      tensors, grad_tensors,
      {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
}
}  // namespace autograd

}  // namespace tensora
