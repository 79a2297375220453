#pragma once

#include "tensora/nn/layer.h"
#include "tensora/ops/rnn/packed_sequence.h"

namespace tensora::nn {

struct RNNOptions {
  int64_t num_layers = 1;
  std::string nonlinearity = "tanh";  // or "relu"
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // of the outputs of all layers but the last, in training
  bool bidirectional = false;
};
struct LSTMOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  int64_t proj_size = 0;  // hidden states are projected to this size, if not 0
};
struct GRUOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
};

namespace detail {

/// What the recurrent layers have in common: sizes and weights.
struct Recurrence {
  std::string_view layer;  // the name of the class, for messages
  int64_t gates = 1;
  int64_t input_size = 0, hidden_size = 0;
  LSTMOptions options;
  // Per layer and direction: weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, as far as present.
  std::vector<Parameter> weights;

  /// Registers the weights, "weight_ih_l0" and so on, with `module`.
  void register_with(Module& module);
  void reset();
  std::string text() const;

  int64_t states() const { return options.num_layers * (options.bidirectional ? 2 : 1); }
  int64_t state_size() const { return options.proj_size > 0 ? options.proj_size : hidden_size; }
  TensorList parameters() const { return TensorList(weights.begin(), weights.end()); }
  /// The input with a batch, and whether it had none.
  std::pair<Tensor, bool> batched(const Tensor& input) const;
  /// A given state with a batch, or zeros.
  Tensor state(const std::optional<Tensor>& given, std::string_view what, int64_t size,
               const Tensor& like, int64_t batch, bool unbatched) const;
};

}  // namespace detail

// Recurrent layers. The input is T B F, or B T F if `batch_first`, or T F without a batch; the
// states are [num_layers * directions, B, H], zeros if not given, and the outputs of the last layer
// T B H * directions. Weights start uniform in ±1/√hidden_size.

/// h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it.
class RNN : public Layer<RNN> {
 public:
  RNN(int64_t input_size, int64_t hidden_size, RNNOptions options = {});

  /// The outputs of all steps, and the last hidden states.
  std::tuple<Tensor, Tensor> forward(const Tensor& input,
                                     const std::optional<Tensor>& hx = {}) const;
  std::tuple<PackedSequence, Tensor> forward(const PackedSequence& input,
                                             const std::optional<Tensor>& hx = {}) const;
  void reset_parameters() { recurrence_.reset(); }
  TensorList all_weights() const { return recurrence_.parameters(); }
  std::string extra_repr() const override { return recurrence_.text(); }

 private:
  detail::Recurrence recurrence_;
  bool relu_ = false;
};

class LSTM : public Layer<LSTM> {
 public:
  using State = std::tuple<Tensor, Tensor>;  // hidden states and cells

  LSTM(int64_t input_size, int64_t hidden_size, LSTMOptions options = {});

  /// The outputs of all steps, and the last hidden states and cells.
  std::tuple<Tensor, State> forward(const Tensor& input, const std::optional<State>& hx = {}) const;
  std::tuple<PackedSequence, State> forward(const PackedSequence& input,
                                            const std::optional<State>& hx = {}) const;
  void reset_parameters() { recurrence_.reset(); }
  TensorList all_weights() const { return recurrence_.parameters(); }
  std::string extra_repr() const override { return recurrence_.text(); }

 private:
  detail::Recurrence recurrence_;
};

class GRU : public Layer<GRU> {
 public:
  GRU(int64_t input_size, int64_t hidden_size, GRUOptions options = {});

  std::tuple<Tensor, Tensor> forward(const Tensor& input,
                                     const std::optional<Tensor>& hx = {}) const;
  std::tuple<PackedSequence, Tensor> forward(const PackedSequence& input,
                                             const std::optional<Tensor>& hx = {}) const;
  void reset_parameters() { recurrence_.reset(); }
  TensorList all_weights() const { return recurrence_.parameters(); }
  std::string extra_repr() const override { return recurrence_.text(); }

 private:
  detail::Recurrence recurrence_;
};

}  // namespace tensora::nn
