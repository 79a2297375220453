#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct RNNCellOptions {
  bool bias = true;
  std::string nonlinearity = "tanh";  // or "relu"
};
struct LSTMCellOptions {
  bool bias = true;
};
struct GRUCellOptions {
  bool bias = true;
};

namespace detail {
/// The weights of one step of a recurrent network.
struct CellWeights {
  Parameter weight_ih, weight_hh;  // gates * hidden, input or hidden
  Parameter bias_ih, bias_hh;      // undefined without biases

  void register_with(Module& module, std::string_view layer, int64_t gates, int64_t input_size,
                     int64_t hidden_size, bool bias);
  void reset();
};
}  // namespace detail

// One step of a recurrent network. input: B F or F; states: B H or H, zeros if not given.

class RNNCell : public Layer<RNNCell> {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, RNNCellOptions options = {});
  /// The next hidden state.
  Tensor forward(const Tensor& input, const std::optional<Tensor>& hx = {}) const;
  void reset_parameters() { weights.reset(); }
  std::string extra_repr() const override;

  int64_t input_size, hidden_size;
  detail::CellWeights weights;

 private:
  bool relu_;
};

class LSTMCell : public Layer<LSTMCell> {
 public:
  using State = std::tuple<Tensor, Tensor>;  // hidden state and cell

  LSTMCell(int64_t input_size, int64_t hidden_size, LSTMCellOptions options = {});
  /// The next hidden state and cell.
  State forward(const Tensor& input, const std::optional<State>& hx = {}) const;
  void reset_parameters() { weights.reset(); }
  std::string extra_repr() const override;

  int64_t input_size, hidden_size;
  detail::CellWeights weights;
};

class GRUCell : public Layer<GRUCell> {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, GRUCellOptions options = {});
  Tensor forward(const Tensor& input, const std::optional<Tensor>& hx = {}) const;
  void reset_parameters() { weights.reset(); }
  std::string extra_repr() const override;

  int64_t input_size, hidden_size;
  detail::CellWeights weights;
};

}  // namespace tensora::nn
