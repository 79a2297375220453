#pragma once

#include <vector>

#include "tensora/llm/architecture.h"
#include "tensora/llm/feed_forward.h"

namespace tensora {
class ProcessGroup;
}

namespace tensora::llm {

/// A transformer decoder: root-mean-square norms, rotary embeddings, grouped attention, a gated
/// feed-forward network or a mixture of them.
class Decoder final : public Model {
 public:
  Decoder(const ModelConfig& config, const DecoderDesign& design, WeightSource& weights);

  Tensor forward(const Batch& batch, PagedCache& cache) const override;
  Tensor hidden(const Batch& batch, PagedCache& cache) const override;
  int64_t bytes() const override;
  int64_t positions() const override { return positions_; }

 private:
  struct Layer {
    Tensor attention_norm, feed_forward_norm;
    Tensor post_attention_norm, post_feed_forward_norm;  // where the design has them
    Tensor q_norm, k_norm;                               // the same
    Projection qkv, output;
    FeedForward feed_forward;
    Experts experts;
  };
  class Loader;

  /// The residual stream T hidden, as float32, between the layers.
  struct Stream {
    Tensor sum;          // what is complete
    Tensor branch = {};  // what is still to be added to it, where the design normalises it
  };

  void load_layer(Loader& loader, const DecoderDesign& design, int64_t number);
  void load_feed_forward(Loader& loader, const DecoderDesign& design, int64_t number);
  /// Makes of what was loaded what is called.
  void finish(Layer& layer) const;
  void check_batch(const Batch& batch, const PagedCache& cache) const;
  /// The norm of the stream, whose branch is added to its sum.
  Tensor normalised(Stream& stream, const Tensor& weight, DType dtype) const;
  /// The same as a projection's input, which may leave the norm to it.
  Projection::Input input(Stream& stream, const Tensor& weight, const Batch& batch) const;
  template <class Branch>
  void add(Stream& stream, const Tensor& post_norm, const Branch& branch) const;
  Tensor attention(const Layer& layer, int64_t number, const Projection::Input& x,
                   const Batch& batch, PagedCache& cache) const;
  /// What a branch gives on this rank, of which the ranks of the group have a part each: their sum.
  /// The residual is added by one of them.
  template <class Branch>
  Tensor summed(const Tensor& residual, const Branch& branch) const;
  /// The stream behind the last layer.
  Stream run(const Batch& batch, PagedCache& cache) const;

  std::shared_ptr<ProcessGroup> group_;  // of the ranks that have the model together; or null
  int64_t positions_ = 0;
  Weight embedding_;
  Projection head_;  // the embedding's matrix, if tied; this rank's rows of it
  bool tied_ = false;
  Tensor final_norm_;
  std::vector<Layer> layers_;
  Tensor table_, local_table_;  // see rope_table
};

}  // namespace tensora::llm
