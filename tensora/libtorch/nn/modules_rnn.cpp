#include "tensora/libtorch/nn/modules_rnn.h"

#include "tensora/libtorch/nn/functional.h"

#include "tensora/ops.h"

namespace torch::nn {

namespace utils::rnn {

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted) {
  return tensora::pack_padded_sequence(input, lengths, batch_first, enforce_sorted);
}
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                               double padding_value,
                                               std::optional<int64_t> total_length) {
  return tensora::pad_packed_sequence(sequence, batch_first, padding_value, total_length);
}
PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted) {
  return tensora::pack_sequence(sequences.vec(), enforce_sorted);
}

Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first, double padding_value,
                    std::string_view padding_side) {
  tensora::check(padding_side == "right" || padding_side == "left",
                 "pad_sequence: padding_side must be \"right\" or \"left\", got \"", padding_side,
                 "\"");
  if (padding_side == "right")
    return tensora::pad_sequence(sequences.vec(), batch_first, padding_value);
  std::vector<Tensor> reversed;
  for (const Tensor& sequence : sequences) reversed.push_back(flip(sequence, {0}));
  return flip(tensora::pad_sequence(reversed, batch_first, padding_value), {batch_first ? 1 : 0});
}

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  const Tensor positions = tensora::arange(
      permutation.numel(), {.dtype = permutation.dtype(), .device = permutation.device()});
  return tensora::empty_like(permutation).scatter_(0, permutation, positions);
}

PackedSequence PackedSequence::to(const TensorOptions& options) const {
  const Tensor moved = data().to(options);
  if (moved.is_same(data())) return *this;
  const auto placed = [&](const Tensor& indices) {
    return indices.defined() ? indices.to(moved.device()) : indices;
  };
  return tensora::PackedSequence{moved, batch_sizes(), placed(sorted_indices()),
                                 placed(unsorted_indices())};
}

}  // namespace utils::rnn

namespace {

std::optional<Tensor> given(const Tensor& state) {
  return state.defined() ? std::optional<Tensor>(state) : std::nullopt;
}

tensora::nn::RNN make_layer(const RNNOptions& options) {
  return {options.input_size(),
          options.hidden_size(),
          {.num_layers = options.num_layers(),
           .nonlinearity = std::string(options.nonlinearity().text),
           .bias = options.bias(),
           .batch_first = options.batch_first(),
           .dropout = options.dropout(),
           .bidirectional = options.bidirectional()}};
}
tensora::nn::LSTM make_layer(const LSTMOptions& options) {
  return {options.input_size(),
          options.hidden_size(),
          {.num_layers = options.num_layers(),
           .bias = options.bias(),
           .batch_first = options.batch_first(),
           .dropout = options.dropout(),
           .bidirectional = options.bidirectional(),
           .proj_size = options.proj_size()}};
}
tensora::nn::GRU make_layer(const GRUOptions& options) {
  return {options.input_size(),
          options.hidden_size(),
          {.num_layers = options.num_layers(),
           .bias = options.bias(),
           .batch_first = options.batch_first(),
           .dropout = options.dropout(),
           .bidirectional = options.bidirectional()}};
}
tensora::nn::RNNCell make_layer(const RNNCellOptions& options) {
  return {options.input_size(),
          options.hidden_size(),
          {.bias = options.bias(), .nonlinearity = std::string(options.nonlinearity().text)}};
}
tensora::nn::LSTMCell make_layer(const LSTMCellOptions& options) {
  return {options.input_size(), options.hidden_size(), {.bias = options.bias()}};
}
tensora::nn::GRUCell make_layer(const GRUCellOptions& options) {
  return {options.input_size(), options.hidden_size(), {.bias = options.bias()}};
}

template <class Options>
detail::RNNOptionsBase base_of(const Options& options) {
  Choice mode = kGRU;
  if constexpr (std::same_as<Options, LSTMOptions>) mode = kLSTM;
  if constexpr (std::same_as<Options, RNNOptions>)
    mode = options.nonlinearity() == Choice(kTanh) ? Choice(kRNN_TANH) : Choice(kRNN_RELU);
  auto base = detail::RNNOptionsBase(mode, options.input_size(), options.hidden_size())
                  .num_layers(options.num_layers())
                  .bias(options.bias())
                  .batch_first(options.batch_first())
                  .dropout(options.dropout())
                  .bidirectional(options.bidirectional());
  if constexpr (std::same_as<Options, LSTMOptions>) base.proj_size(options.proj_size());
  return base;
}

}  // namespace

// ---- layers

template <class Derived, class Options, class Layer>
RNNImplBase<Derived, Options, Layer>::RNNImplBase(const Options& options_given)
    : options(options_given), options_base(base_of(options_given)) {
  tensora::check(options.hidden_size() > 0, "hidden_size must be greater than zero");
  tensora::check(options.num_layers() > 0, "num_layers must be greater than zero");
  RNNImplBase::reset();
}

template <class Derived, class Options, class Layer>
void RNNImplBase<Derived, Options, Layer>::reset() {
  layer_.emplace(make_layer(options));
  this->adopt(*layer_);
}
template <class Derived, class Options, class Layer>
void RNNImplBase<Derived, Options, Layer>::reset_parameters() {
  layer_->reset_parameters();
}
template <class Derived, class Options, class Layer>
std::vector<Tensor> RNNImplBase<Derived, Options, Layer>::all_weights() const {
  return layer_->all_weights();
}
template <class Derived, class Options, class Layer>
void RNNImplBase<Derived, Options, Layer>::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::" << layer_->name()
         << "(input_size=" << options.input_size() << ", hidden_size=" << options.hidden_size()
         << ", num_layers=" << options.num_layers() << ", bias=" << options.bias()
         << ", batch_first=" << options.batch_first() << ", dropout=" << options.dropout()
         << ", bidirectional=" << options.bidirectional();
  if constexpr (std::same_as<Options, LSTMOptions>)
    if (options.proj_size() > 0) stream << ", proj_size=" << options.proj_size();
  stream << ")";
}

std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor& input, Tensor hx) {
  return layer_->forward(input, given(hx));
}
std::tuple<utils::rnn::PackedSequence, Tensor> RNNImpl::forward_with_packed_input(
    const utils::rnn::PackedSequence& input, Tensor hx) {
  return layer_->forward(static_cast<const tensora::PackedSequence&>(input), given(hx));
}
std::tuple<Tensor, LSTMImpl::State> LSTMImpl::forward(const Tensor& input,
                                                      std::optional<State> hx) {
  return layer_->forward(input, hx);
}
std::tuple<utils::rnn::PackedSequence, LSTMImpl::State> LSTMImpl::forward_with_packed_input(
    const utils::rnn::PackedSequence& input, std::optional<State> hx) {
  return layer_->forward(static_cast<const tensora::PackedSequence&>(input), hx);
}
std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor& input, Tensor hx) {
  return layer_->forward(input, given(hx));
}
std::tuple<utils::rnn::PackedSequence, Tensor> GRUImpl::forward_with_packed_input(
    const utils::rnn::PackedSequence& input, Tensor hx) {
  return layer_->forward(static_cast<const tensora::PackedSequence&>(input), given(hx));
}

template class RNNImplBase<RNNImpl, RNNOptions, tensora::nn::RNN>;
template class RNNImplBase<LSTMImpl, LSTMOptions, tensora::nn::LSTM>;
template class RNNImplBase<GRUImpl, GRUOptions, tensora::nn::GRU>;

// ---- cells

template <class Derived, class Options, class Layer>
void RNNCellImplBase<Derived, Options, Layer>::reset() {
  layer_.emplace(make_layer(options));
  this->adopt(*layer_);
  weight_ih = layer_->weights.weight_ih;
  weight_hh = layer_->weights.weight_hh;
  bias_ih = layer_->weights.bias_ih;
  bias_hh = layer_->weights.bias_hh;
}
template <class Derived, class Options, class Layer>
void RNNCellImplBase<Derived, Options, Layer>::reset_parameters() {
  layer_->reset_parameters();
}
template <class Derived, class Options, class Layer>
void RNNCellImplBase<Derived, Options, Layer>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::" << layer_->name() << "(" << options.input_size() << ", "
         << options.hidden_size();
  if (!options.bias()) stream << ", bias=false";
  if constexpr (std::same_as<Options, RNNCellOptions>)
    if (options.nonlinearity() != Choice(kTanh))
      stream << ", nonlinearity=" << options.nonlinearity();
  stream << ")";
}

Tensor RNNCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return layer_->forward(input, given(hx));
}
LSTMCellImpl::State LSTMCellImpl::forward(const Tensor& input, std::optional<State> hx) {
  return layer_->forward(input, hx);
}
Tensor GRUCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return layer_->forward(input, given(hx));
}

template class RNNCellImplBase<RNNCellImpl, RNNCellOptions, tensora::nn::RNNCell>;
template class RNNCellImplBase<LSTMCellImpl, LSTMCellOptions, tensora::nn::LSTMCell>;
template class RNNCellImplBase<GRUCellImpl, GRUCellOptions, tensora::nn::GRUCell>;

// ---- attention

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& options_given)
    : options(options_given) {
  reset();
}

void MultiheadAttentionImpl::reset() {
  layer_.emplace(options.embed_dim(), options.num_heads(),
                 tensora::nn::MultiheadAttentionOptions{.dropout = options.dropout(),
                                                        .bias = options.bias(),
                                                        .add_bias_kv = options.add_bias_kv(),
                                                        .add_zero_attn = options.add_zero_attn(),
                                                        .kdim = options.kdim(),
                                                        .vdim = options.vdim()});
  adopt(*layer_);
  _qkv_same_embed_dim =
      options.kdim() == options.embed_dim() && options.vdim() == options.embed_dim();
  head_dim = options.embed_dim() / options.num_heads();
  in_proj_weight = layer_->in_proj_weight;
  in_proj_bias = layer_->in_proj_bias;
  bias_k = layer_->bias_k;
  bias_v = layer_->bias_v;
  q_proj_weight = layer_->q_proj_weight;
  k_proj_weight = layer_->k_proj_weight;
  v_proj_weight = layer_->v_proj_weight;
  out_proj = LinearImpl::over(
      layer_->out_proj,
      LinearOptions(options.embed_dim(), options.embed_dim()).bias(options.bias()));
  replace_module("out_proj", out_proj);
}

void MultiheadAttentionImpl::_reset_parameters() { layer_->reset_parameters(); }

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::MultiheadAttention";
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask,
    bool need_weights, const Tensor& attn_mask, bool average_attn_weights) {
  return layer_->forward(query, key, value,
                         {.key_padding_mask = key_padding_mask,
                          .need_weights = need_weights,
                          .attn_mask = attn_mask,
                          .average_attn_weights = average_attn_weights});
}

namespace functional {

// A layer without memory of its own takes the weights over for one call.
std::tuple<Tensor, Tensor> multi_head_attention_forward(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const MultiheadAttentionForwardFuncOptions& options) {
  const int64_t embed = options.embed_dim_to_check();
  tensora::check(query.size(-1) == embed, "multi_head_attention_forward: embed_dim_to_check is ",
                 embed, ", but the query has ", query.size(-1), " features");
  const bool separate = options.use_separate_proj_weight();
  const int64_t kdim = separate ? options.k_proj_weight().size(-1) : embed;
  const int64_t vdim = separate ? options.v_proj_weight().size(-1) : embed;
  const tensora::nn::FactoryScope without_memory({.device = kMeta});
  tensora::nn::MultiheadAttention layer(embed, options.num_heads(),
                                        {.dropout = options.dropout_p(),
                                         .add_zero_attn = options.add_zero_attn(),
                                         .kdim = kdim,
                                         .vdim = vdim});
  const auto take = [](Tensor& place, const Tensor& weight) { place = weight; };
  if (!separate) {
    take(layer.in_proj_weight, options.in_proj_weight());
  } else if (kdim == embed && vdim == embed) {
    take(layer.in_proj_weight,
         cat({options.q_proj_weight(), options.k_proj_weight(), options.v_proj_weight()}));
  } else {
    take(layer.q_proj_weight, options.q_proj_weight());
    take(layer.k_proj_weight, options.k_proj_weight());
    take(layer.v_proj_weight, options.v_proj_weight());
  }
  take(layer.in_proj_bias, options.in_proj_bias());
  take(layer.bias_k, options.bias_k());
  take(layer.bias_v, options.bias_v());
  take(layer.out_proj.weight, options.out_proj_weight());
  take(layer.out_proj.bias, options.out_proj_bias());
  layer.train(options.training());
  return layer.forward(query, key, value,
                       {.key_padding_mask = options.key_padding_mask(),
                        .need_weights = options.need_weights(),
                        .attn_mask = options.attn_mask(),
                        .average_attn_weights = options.average_attn_weights()});
}

}  // namespace functional

}  // namespace torch::nn
