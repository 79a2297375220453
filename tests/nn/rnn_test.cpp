#include "tensora/nn/rnn.h"

#include "tensora/nn/rnn_cell.h"
#include "tests/filled.h"

namespace tensora::testing {
namespace {

const Goldens& goldens() {
  static const Goldens file(TENSORA_TESTS "/nn/goldens/blocks.txt");
  return file;
}

template <class Layer>
void compare(const std::string& name, Layer layer, const Shape& sizes) {
  fill(layer);
  const Tensor x = filled("x", sizes).requires_grad_();
  TensorList outputs;
  auto result = layer(x);
  nn::detail::visit_tensors(result, [&](Tensor& tensor) { outputs.push_back(tensor); });
  goldens().expect(name + ".output", outputs[0]);
  for (size_t i = 1; i < outputs.size(); ++i)
    goldens().expect(concat(name, ".state", i - 1), outputs[i]);
  goldens().expect_gradients(name, outputs, layer, {x});
}

TEST(RNN, EqualsPyTorch) {
  compare("rnn", nn::RNN(3, 4, {.nonlinearity = "relu"}), {5, 2, 3});
  compare("lstm", nn::LSTM(3, 4), {5, 2, 3});
  compare(
      "lstm_deep",
      nn::LSTM(3, 4, {.num_layers = 2, .bias = false, .batch_first = true, .bidirectional = true}),
      {2, 5, 3});
  compare("lstm_proj", nn::LSTM(3, 5, {.num_layers = 2, .proj_size = 2}), {5, 2, 3});
  compare("gru", nn::GRU(3, 4, {.num_layers = 2, .bidirectional = true}), {5, 2, 3});
}

TEST(RNN, TakesOneSequenceAndGivenStates) {
  nn::LSTM lstm(3, 4);
  fill(lstm);
  const auto [output, state] =
      lstm(filled("x", {5, 3}), nn::LSTM::State(filled("h", {1, 4}), filled("c", {1, 4})));
  goldens().expect("lstm_unbatched.output", output);
  goldens().expect("lstm_unbatched.cell", std::get<1>(state));
}

TEST(RNN, TakesPackedSequences) {
  nn::GRU gru(3, 4, {.bidirectional = true});
  fill(gru);
  const PackedSequence packed =
      pack_padded_sequence(filled("x", {5, 3, 3}), std::vector<int64_t>{2, 5, 3}, false, false);
  const auto [output, state] = gru(packed, filled("h", {2, 3, 4}));
  goldens().expect("gru_packed.output", std::get<0>(pad_packed_sequence(output)));
  goldens().expect("gru_packed.state", state);
  nn::LSTM lstm(3, 4);
  fill(lstm);
  const auto [steps, last] = lstm(packed);
  goldens().expect("lstm_packed.output", std::get<0>(pad_packed_sequence(steps)));
  goldens().expect("lstm_packed.cell", std::get<1>(last));
}

template <class Cell>
void compare_cell(const std::string& name, Cell cell) {
  fill(cell);
  const Tensor x = filled("x", {2, 3}).requires_grad_();
  const Tensor output = cell(x, filled("h", {2, 4}));
  goldens().expect(name + ".output", output);
  goldens().expect_gradients(name, {output}, cell, {x});
}

TEST(RNN, CellsEqualPyTorch) {
  compare_cell("rnn_cell", nn::RNNCell(3, 4));
  compare_cell("gru_cell", nn::GRUCell(3, 4, {.bias = false}));
  nn::LSTMCell cell(3, 4);
  fill(cell);
  const auto [hidden, state] = cell(filled("x", {2, 3}));
  goldens().expect("lstm_cell.hidden", hidden);
  goldens().expect("lstm_cell.cell", state);
}

TEST(RNN, ClonesAndPrints) {
  const nn::LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.1});
  const nn::LSTM copy = lstm.clone();
  EXPECT_TRUE(copy.all_weights()[0].is_same(copy.get_parameter("weight_ih_l0")));
  EXPECT_FALSE(copy.all_weights()[0].is_same(lstm.all_weights()[0]));
  EXPECT_EQ(lstm.to_string(), "LSTM(3, 4, num_layers=2, dropout=0.1)");
  EXPECT_EQ(nn::GRUCell(3, 4, {.bias = false}).to_string(), "GRUCell(3, 4, bias=False)");
}

TEST(RNN, DropsBetweenLayersInTrainingOnly) {
  nn::GRU gru(3, 4, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = randn({5, 2, 3});
  EXPECT_NE(values(std::get<0>(gru(x))), values(std::get<0>(gru(x))));
  gru.eval();
  EXPECT_EQ(values(std::get<0>(gru(x))), values(std::get<0>(gru(x))));
}

TEST(RNN, SaysWhatIsWrong) {
  nn::LSTM lstm(3, 4);
  EXPECT_TRUE(contains(error_of([&] {
                         lstm(zeros({5, 2, 7}));
                       }),
                       "LSTM: expected an input with 3 features, got shape [5, 2, 7]"));
  EXPECT_TRUE(contains(error_of([&] {
                         lstm(zeros({5, 2, 3}), nn::LSTM::State(zeros({1, 3, 4}), Tensor()));
                       }),
                       "LSTM: expected hidden states of shape [1, 2, 4], got [1, 3, 4]"));
  EXPECT_TRUE(contains(error_of([] { nn::LSTM(3, 4, {.proj_size = 4}); }), "proj_size"));
  EXPECT_TRUE(contains(error_of([] { nn::RNN(3, 4, {.nonlinearity = "gelu"}); }), "'gelu'"));
  EXPECT_TRUE(contains(error_of([] { nn::GRUCell(3, 4)(zeros({2, 5})); }), "GRUCell"));
}

}  // namespace
}  // namespace tensora::testing
