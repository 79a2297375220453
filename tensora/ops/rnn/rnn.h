#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

// Recurrent networks. The input is [T, B, F], or [B, T, F] if `batch_first`. The parameters of all
// layers follow each other, those of the two directions of a layer side by side: w_ih, w_hh, and if
// `has_biases` b_ih, b_hh; the gates in the order i, f, g, o (lstm) and r, z, n (gru). States are
// [layers * directions, B, H]. `dropout` is applied between layers if `train`.
//
// The second forms take packed sequences: the rows of all steps in `data`, and how many belong to
// each step in `batch_sizes`, an int64 tensor on the CPU; see packed_sequence.h.

/// hx: hidden state and cell. Returns the outputs of the last layer, and the last hidden states and
/// cells. With a fifth (third without biases) parameter per layer, w_hr, hidden states are
/// projected.
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, const std::vector<Tensor>& hx,
                                        const std::vector<Tensor>& params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first);
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& data, const Tensor& batch_sizes,
                                        const std::vector<Tensor>& hx,
                                        const std::vector<Tensor>& params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train,
                                        bool bidirectional);
/// Returns the outputs of the last layer and the last hidden states.
std::tuple<Tensor, Tensor> gru(const Tensor& input, const Tensor& hx,
                               const std::vector<Tensor>& params, bool has_biases,
                               int64_t num_layers, double dropout, bool train, bool bidirectional,
                               bool batch_first);
std::tuple<Tensor, Tensor> gru(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                               const std::vector<Tensor>& params, bool has_biases,
                               int64_t num_layers, double dropout, bool train, bool bidirectional);
/// h = tanh(w_ih x + b_ih + w_hh h + b_hh), or relu of it.
std::tuple<Tensor, Tensor> rnn_tanh(const Tensor& input, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first);
std::tuple<Tensor, Tensor> rnn_tanh(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional);
std::tuple<Tensor, Tensor> rnn_relu(const Tensor& input, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first);
std::tuple<Tensor, Tensor> rnn_relu(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                                    const std::vector<Tensor>& params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train,
                                    bool bidirectional);

/// One step. input: [B, F], states: [B, H]; or both without the batch. Biases may be undefined.
std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx,
                                     const Tensor& w_ih, const Tensor& w_hh);
std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, const std::vector<Tensor>& hx,
                                     const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                                     const Tensor& b_hh);
Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh);
Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                const Tensor& b_ih, const Tensor& b_hh);
Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh);
Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh);
Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh);
Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh);

}  // namespace tensora
