#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tensora/llm/feed_forward.h"
#include "tensora/torch/step.h"
#include "tensora/torch/weights.h"

namespace tensora::torch {

/// Activations, or, with a norm, what they are made from.
struct Input {
  at::Tensor x;
  const Norm* norm = nullptr;
};

struct AttentionLayer {
  int64_t number = 0;
  bool is_local = false;
  Norm q_norm, k_norm;  // where the design has them
};

struct GatedLayer {
  Activation activation = Activation::silu;
  Matrix gate_up;  // the gate first; both lie together, or are two parts
  Matrix down;
};

struct ExpertsLayer {
  llm::Experts ours;              // how it chooses; with weights where these are kept
  Matrix router, gate, up, down;  // of all experts one below the other
};

struct RopeTables {
  Tensor ours, ours_local;
  RopeTable torch, torch_local;  // local ones: where they differ
};

/// The operations of a decoder's layer as LibTorch computes them.
class Kernels {
 public:
  Kernels(const llm::ModelConfig& config, at::ScalarType dtype, RopeTables tables)
      : config_(config), dtype_(dtype), tables_(std::move(tables)) {}
  virtual ~Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// The residual stream's dtype, and that of activations in products.
  virtual at::ScalarType residual_dtype() const { return dtype_; }
  at::ScalarType dtype() const { return dtype_; }

  virtual at::Tensor embedding(const Step& step, const Matrix& matrix) const;
  /// What a product or an addition is given: normalised, or with the norm to be done there.
  virtual Input normalised(const at::Tensor& x, const Norm& norm, bool must_be_done) const;
  /// A branch's result, or the stream, in the residual's dtype.
  virtual at::Tensor branch_norm(const at::Tensor& x, const Norm& norm) const;
  /// x Wᵀ + bias, of the products' dtype; with a residual, their sum in the residual's dtype.
  virtual at::Tensor linear(const Input& x, const Matrix& matrix, const at::Tensor& residual) const;
  virtual at::Tensor gated(const Input& x, const GatedLayer& layer) const;
  /// In the residual's dtype, with the residual added where there is one.
  virtual at::Tensor experts(const at::Tensor& x, const ExpertsLayer& layer,
                             const at::Tensor& residual) const;
  /// qkv: T (heads + 2 kv_heads) head_dim; the result: T, heads · head_dim.
  virtual at::Tensor attention(Step& step, const AttentionLayer& layer,
                               const at::Tensor& qkv) const;
  /// float32 [rows, vocab_size].
  virtual at::Tensor logits(const Input& x, const Matrix& head) const;
  const RopeTables& tables() const { return tables_; }
  /// What was done otherwise than asked for.
  virtual std::vector<std::string> notes() const { return {}; }

 protected:
  const llm::ModelConfig& config() const { return config_; }
  at::Tensor normalised_now(const at::Tensor& x, const Norm& norm, at::ScalarType result) const;
  at::Tensor ready(const Input& x) const;
  at::Tensor product(const at::Tensor& x, const Matrix& matrix) const;
  at::Tensor combined(at::Tensor gate, const at::Tensor& up, Activation activation) const;
  /// Queries [T, heads, head_dim]; keys and values go into the cache.
  at::Tensor rotated_and_stored(Step& step, const AttentionLayer& layer,
                                const at::Tensor& qkv) const;
  int64_t window_of(const AttentionLayer& layer) const {
    return layer.is_local ? config_.window : 0;
  }

 private:
  at::Tensor rotate(const at::Tensor& x, const RopeTable& angles) const;

  const llm::ModelConfig& config_;
  at::ScalarType dtype_;
  RopeTables tables_;
};

/// The names of the operations that hybrid can compute by Tensora's kernels.
inline constexpr const char* kHybridKernels[] = {"matmul", "attention", "norm", "rope", "swiglu"};

/// LibTorch's tensors, Tensora's kernels. One that throws is replaced by LibTorch's from then on.
class HybridKernels final : public Kernels {
 public:
  HybridKernels(const llm::ModelConfig& config, at::ScalarType dtype, RopeTables tables,
                Device device, const std::vector<std::string>& chosen);

  at::ScalarType residual_dtype() const override { return at::kFloat; }
  at::Tensor embedding(const Step& step, const Matrix& matrix) const override;
  Input normalised(const at::Tensor& x, const Norm& norm, bool must_be_done) const override;
  at::Tensor linear(const Input& x, const Matrix& matrix,
                    const at::Tensor& residual) const override;
  at::Tensor gated(const Input& x, const GatedLayer& layer) const override;
  at::Tensor branch_norm(const at::Tensor& x, const Norm& norm) const override;
  at::Tensor experts(const at::Tensor& x, const ExpertsLayer& layer,
                     const at::Tensor& residual) const override;
  at::Tensor attention(Step& step, const AttentionLayer& layer,
                       const at::Tensor& qkv) const override;
  at::Tensor logits(const Input& x, const Matrix& head) const override;
  std::vector<std::string> notes() const override;

 private:
  bool uses(const char* kernel) const;
  /// Tensora's way, or LibTorch's where that was not chosen or fails.
  template <class Ours, class Theirs>
  at::Tensor either(const char* kernel, const Ours& ours, const Theirs& theirs) const;
  llm::Projection::Input given(const Input& x) const;
  at::Tensor norm_by_either(const at::Tensor& x, const Norm& norm, at::ScalarType result) const;

  Device device_;
  mutable std::mutex mutex_;                           // of what follows
  mutable std::map<std::string, bool> used_;           // by the kernels' names
  mutable std::map<std::string, std::string> failed_;  // why, by the kernels' names
};

}  // namespace tensora::torch
