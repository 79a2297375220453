#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensora/llm/architecture.h"
#include "tensora/torch/kernels.h"
#include "tensora/torch/package.h"

namespace tensora::torch {

/// How a decoder is computed.
struct DecoderOptions {
  /// Of weights and activations in products; none: that of the weights, and for quantized ones
  /// the half type whose products are fast on the device.
  std::optional<DType> dtype = {};
  bool hybrid = false;
  std::vector<std::string> kernels = {};  // of hybrid; see kHybridKernels
  // AOTInductor; see Note [Compiled decode steps].
  std::string package = {};   // a .pt2 file that computes decode steps; empty: none
  std::string describe = {};  // a file that gets the description for a package; empty: none
  int64_t block_size = 0;     // of the static cache that a package works on
  DType cache_dtype = kFloat32;
  bool shares_allocator = false;  // see Note [One allocator for two libraries]
};

/// The decoders of llm::Decoder, computed with LibTorch's tensors.
class Decoder final : public llm::Model {
 public:
  Decoder(const llm::ModelConfig& config, const llm::DecoderDesign& design,
          llm::WeightSource& weights, const DecoderOptions& options);
  ~Decoder() override;
  /// What products of such weights are computed in.
  static DType dtype_for(const llm::WeightSource& weights, const DecoderOptions& options);

  Tensor forward(const llm::Batch& batch, llm::PagedCache& cache) const override;
  Tensor hidden(const llm::Batch& batch, llm::PagedCache& cache) const override;
  int64_t bytes() const override;
  int64_t positions() const override { return positions_; }

  /// Whether quantized weights were converted.
  bool is_dequantized() const { return dequantized_; }
  /// Whether LibTorch multiplies by int8 weights as they are.
  bool keeps_int8() const { return keeps_int8_; }
  std::vector<std::string> notes() const;

 private:
  struct Layer {
    Norm attention_norm, feed_forward_norm, post_attention_norm, post_feed_forward_norm;
    Matrix qkv, output;
    AttentionLayer attention;
    GatedLayer gated;
    ExpertsLayer experts;
  };

  void load_layer(Loader& loader, const llm::DecoderDesign& design, int64_t number);
  void load_feed_forward(Loader& loader, const llm::DecoderDesign& design, int64_t number);
  void make_kernels(const DecoderOptions& options);
  void use_package(const DecoderOptions& options);
  Package::Constants constants() const;
  nlohmann::json description(const DecoderOptions& options) const;
  void check_batch(const llm::Batch& batch, const llm::PagedCache& cache) const;
  /// The residual stream behind the last layer.
  at::Tensor run(Step& step) const;
  template <class Body>
  Tensor guarded(const llm::Batch& batch, llm::PagedCache& cache, const Body& body) const;

  int64_t positions_ = 0;
  at::ScalarType dtype_;
  bool tied_ = false, dequantized_ = false, converted_ = false, keeps_int8_ = false;
  Matrix embedding_, head_;
  Norm final_norm_;
  std::vector<Layer> layers_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Package> package_;
  mutable std::atomic<int64_t> repeated_{0};  // steps, for want of memory
};

}  // namespace tensora::torch
