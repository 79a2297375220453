#pragma once

// Recurrent layers and cells, attention and transformers: handles to Tensora's.

#include "tensora/libtorch/nn/any_module.h"
#include "tensora/libtorch/nn/modules_layers.h"
#include "tensora/nn/multihead_attention.h"
#include "tensora/nn/rnn.h"
#include "tensora/nn/rnn_cell.h"

namespace torch::nn {

namespace utils::rnn {
/// Sequences of different lengths, one behind the other.
class PackedSequence : public tensora::PackedSequence {
 public:
  PackedSequence() = default;
  PackedSequence(const tensora::PackedSequence& sequence)  // NOLINT: implicit
      : tensora::PackedSequence(sequence) {}
  const Tensor& data() const { return tensora::PackedSequence::data; }
  const Tensor& batch_sizes() const { return tensora::PackedSequence::batch_sizes; }
  const Tensor& sorted_indices() const { return tensora::PackedSequence::sorted_indices; }
  const Tensor& unsorted_indices() const { return tensora::PackedSequence::unsorted_indices; }
  /// The sequences on another device or of another dtype; the batch sizes stay on the CPU.
  PackedSequence to(const TensorOptions& options) const;
  template <tensora::SingleOption Option>
  PackedSequence to(const Option& option) const {
    return to(tensora::as_options(option));
  }
  PackedSequence cpu() const { return to(tensora::device(kCPU)); }
  PackedSequence cuda() const { return to(tensora::device(kCUDA)); }
  bool is_cuda() const { return data().is_cuda(); }
};
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence,
                                               bool batch_first = false, double padding_value = 0,
                                               std::optional<int64_t> total_length = {});
PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted = true);
/// `padding_side` is "right", behind the sequences, or "left", before them.
Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first = false, double padding_value = 0,
                    std::string_view padding_side = "right");
/// The permutation that undoes this one; undefined for an undefined one.
Tensor invert_permutation(const Tensor& permutation);
}  // namespace utils::rnn

/// The options and weights that recurrent layers have in common.
template <class Derived, class Options, class Layer>
class RNNImplBase : public Cloneable<Derived> {
 public:
  RNNImplBase(int64_t input_size, int64_t hidden_size)
      : RNNImplBase(Options(input_size, hidden_size)) {}
  explicit RNNImplBase(const Options& options_given);
  void reset() override;
  void reset_parameters();
  void flatten_parameters() {}  // the weights are used where they are
  void pretty_print(std::ostream& stream) const override;
  std::vector<Tensor> all_weights() const;

  Options options;
  detail::RNNOptionsBase options_base;

 protected:
  std::optional<Layer> layer_;
};

class RNNImpl : public RNNImplBase<RNNImpl, RNNOptions, tensora::nn::RNN> {
 public:
  using RNNImplBase::RNNImplBase;
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})
 public:
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& input, Tensor hx = {});
};
TORCH_MODULE(RNN);

class LSTMImpl : public RNNImplBase<LSTMImpl, LSTMOptions, tensora::nn::LSTM> {
 public:
  using State = std::tuple<Tensor, Tensor>;
  using RNNImplBase::RNNImplBase;
  std::tuple<Tensor, State> forward(const Tensor& input, std::optional<State> hx = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<State>())})
 public:
  std::tuple<utils::rnn::PackedSequence, State> forward_with_packed_input(
      const utils::rnn::PackedSequence& input, std::optional<State> hx = {});
};
TORCH_MODULE(LSTM);

class GRUImpl : public RNNImplBase<GRUImpl, GRUOptions, tensora::nn::GRU> {
 public:
  using RNNImplBase::RNNImplBase;
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})
 public:
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& input, Tensor hx = {});
};
TORCH_MODULE(GRU);

extern template class RNNImplBase<RNNImpl, RNNOptions, tensora::nn::RNN>;
extern template class RNNImplBase<LSTMImpl, LSTMOptions, tensora::nn::LSTM>;
extern template class RNNImplBase<GRUImpl, GRUOptions, tensora::nn::GRU>;

/// What the cells have in common.
template <class Derived, class Options, class Layer>
class RNNCellImplBase : public Cloneable<Derived> {
 public:
  RNNCellImplBase(int64_t input_size, int64_t hidden_size)
      : RNNCellImplBase(Options(input_size, hidden_size)) {}
  explicit RNNCellImplBase(const Options& options_given) : options(options_given) {
    RNNCellImplBase::reset();
  }
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  Options options;
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  std::optional<Layer> layer_;
};

class RNNCellImpl : public RNNCellImplBase<RNNCellImpl, RNNCellOptions, tensora::nn::RNNCell> {
 public:
  using RNNCellImplBase::RNNCellImplBase;
  Tensor forward(const Tensor& input, const Tensor& hx = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})
};
TORCH_MODULE(RNNCell);

class LSTMCellImpl : public RNNCellImplBase<LSTMCellImpl, LSTMCellOptions, tensora::nn::LSTMCell> {
 public:
  using State = std::tuple<Tensor, Tensor>;
  using RNNCellImplBase::RNNCellImplBase;
  State forward(const Tensor& input, std::optional<State> hx = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<State>())})
};
TORCH_MODULE(LSTMCell);

class GRUCellImpl : public RNNCellImplBase<GRUCellImpl, GRUCellOptions, tensora::nn::GRUCell> {
 public:
  using RNNCellImplBase::RNNCellImplBase;
  Tensor forward(const Tensor& input, const Tensor& hx = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})
};
TORCH_MODULE(GRUCell);

extern template class RNNCellImplBase<RNNCellImpl, RNNCellOptions, tensora::nn::RNNCell>;
extern template class RNNCellImplBase<LSTMCellImpl, LSTMCellOptions, tensora::nn::LSTMCell>;
extern template class RNNCellImplBase<GRUCellImpl, GRUCellOptions, tensora::nn::GRUCell>;

class MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options_given);
  void reset() override;
  void _reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  /// The outputs and the attention weights.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {},
                                     bool average_attn_weights = true);
  FORWARD_HAS_DEFAULT_ARGS({3, AnyValue(Tensor())}, {4, AnyValue(true)}, {5, AnyValue(Tensor())},
                           {6, AnyValue(true)})

 public:
  MultiheadAttentionOptions options;
  bool _qkv_same_embed_dim = true;
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj = nullptr;
  Tensor bias_k, bias_v, q_proj_weight, k_proj_weight, v_proj_weight;
  int64_t head_dim = 0;

 private:
  std::optional<tensora::nn::MultiheadAttention> layer_;
};
TORCH_MODULE(MultiheadAttention);

}  // namespace torch::nn
