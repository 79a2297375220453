// What is exported computes the same when it is imported; and what cannot be exported is named.
#include <cmath>
#include <limits>

#include "tensora/nn.h"
#include "tensora/onnx/export.h"
#include "tensora/onnx/import.h"
#include "tests/helpers.h"

namespace tensora::test {
namespace {

using onnx::ExportOptions;
using onnx::ModelProto;
using ::tensora::testing::error_of;
using In = std::span<const Tensor>;
using Out = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Function = std::function<Tensor(In)>;

::testing::AssertionResult contains(const std::string& text, std::string_view part) {
  if (::tensora::testing::contains(text, part)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the error is: " << text;
}

jit::Function listed(const Function& function) {
  return [function](In inputs) { return Out{function(inputs)}; };
}

/// Exports a function, writes and reads the bytes, and compares the results.
ModelProto round_trip(const Function& function, const Out& inputs,
                      const ExportOptions& options = {}, const std::vector<Out>& others = {}) {
  const no_grad silent;
  ModelProto model = onnx::parse_model(
      onnx::serialize_model(onnx::export_model(listed(function), inputs, options)));
  const onnx::Program program(model);
  std::vector<Out> all{inputs};
  all.insert(all.end(), others.begin(), others.end());
  for (const Out& given : all) {
    const Tensor expected = function(given), found = program(given).at(0);
    EXPECT_EQ(found.sizes(), expected.sizes());
    EXPECT_EQ(found.dtype(), expected.dtype());
    EXPECT_TRUE(allclose(to(found, kFloat64), to(expected, kFloat64), 1e-4, 1e-5, true))
        << concat(found, " instead of ", expected);
  }
  return model;
}

std::string export_error(const Function& function, const Out& inputs,
                         const ExportOptions& options = {}) {
  return error_of([&] { onnx::export_model(listed(function), inputs, options); });
}

size_t count(const ModelProto& model, std::string_view op) {
  size_t result = 0;
  for (const onnx::NodeProto& node : model.graph.nodes) result += node.op_type == op;
  return result;
}

ExportOptions batch_of(const std::string& name) {
  return {.input_names = {name}, .dynamic_axes = {{name, {{0, "batch"}}}}};
}

TEST(OnnxExport, linear_layers_are_gemms_with_the_names_of_the_parameters) {
  nn::Sequential net(nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4));
  ExportOptions options = batch_of("x");
  options.output_names = {"y"};
  options.parameters = net.state_dict();
  const ModelProto model = round_trip([&](In in) { return net(in[0]); }, {randn({3, 8})}, options,
                                      {{randn({1, 8})}, {randn({9, 8})}});
  EXPECT_EQ(model.graph.nodes.size(), 3u);
  EXPECT_EQ(count(model, "Gemm"), 2u);
  ASSERT_EQ(model.graph.initializers.size(), 4u);
  EXPECT_EQ(model.graph.initializers[0].first, "0.weight");
  EXPECT_EQ(model.graph.outputs[0].name, "y");
  EXPECT_EQ((*model.graph.inputs[0].sizes)[0].symbol, "batch");
  EXPECT_EQ((*model.graph.outputs[0].sizes)[0].symbol, "batch");
  EXPECT_EQ((*model.graph.outputs[0].sizes)[1].size, 4);
}

TEST(OnnxExport, images) {
  nn::Sequential net(nn::Conv2d(3, 8, 3), nn::BatchNorm2d(8), nn::ReLU(), nn::MaxPool2d(2),
                     nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(8, 5));
  net.eval();
  const ModelProto model =
      round_trip([&](In in) { return net(in[0]); }, {randn({2, 3, 12, 10})},
                 {.input_names = {"x"}, .dynamic_axes = {{"x", {{0, "n"}, {2, "h"}, {-1, "w"}}}}},
                 {{randn({1, 3, 9, 20})}});
  EXPECT_EQ(count(model, "BatchNormalization"), 1u);
}

TEST(OnnxExport, whole_recurrent_layers) {
  nn::LSTM lstm(4, 6, {.num_layers = 2, .bidirectional = true});
  const ModelProto model =
      round_trip([&](In in) { return std::get<0>(lstm(in[0])); }, {randn({5, 3, 4})},
                 {.input_names = {"x"}, .dynamic_axes = {{"x", {{0, "time"}, {1, "batch"}}}}},
                 {{randn({9, 2, 4})}, {randn({1, 1, 4})}});
  EXPECT_EQ(count(model, "LSTM"), 4u);
  EXPECT_EQ(count(model, "Gemm"), 0u);  // their operands are the layers' own
}

TEST(OnnxExport, attention_with_and_without_masks) {
  const auto attend = [](bool causal) {
    return [causal](In in) {
      const Tensor mask = in.size() > 3 ? in[3] : Tensor();
      return scaled_dot_product_attention(in[0], in[1], in[2], mask, 0, causal, {}, true);
    };
  };
  const Tensor q = randn({2, 4, 5, 8}), k = randn({2, 2, 7, 8}), v = randn({2, 2, 7, 6});
  round_trip(attend(false), {q, k, v});
  round_trip(attend(true), {q, k, v});
  Tensor mask = randn({2, 1, 5, 7}) > 0;
  mask.select(2, 3).fill_(0);  // a row without keys gives zeros, not NaN
  round_trip(attend(false), {q, k, v, mask});
  round_trip(attend(false), {q, k, v, where(mask, 0.5, -kInfinity)});
}

TEST(OnnxExport, ops_without_an_operator_are_written_by_their_definition) {
  round_trip([](In in) { return var(in[0], {1}); }, {randn({3, 7})});
  round_trip([](In in) { return group_norm(in[0], 2); }, {randn({2, 4, 5})});
  round_trip([](In in) { return rms_norm(in[0], {7}); }, {randn({3, 7})});
  round_trip([](In in) { return any(in[0] > 1); }, {randn({3, 7})});
  round_trip([](In in) { return cdist(in[0], in[0]); }, {randn({3, 7})});
  round_trip([](In in) { return eye(in[0].size(0)) + in[0]; }, {randn({3, 3})});
  round_trip([](In in) { return repeat_interleave(in[0], 2, 1); }, {randn({3, 2})});
}

TEST(OnnxExport, views_and_writes) {
  const ExportOptions dynamic = {.input_names = {"x"},
                                 .dynamic_axes = {{"x", {{0, "rows"}, {1, "columns"}}}}};
  const std::vector<Out> others{{randn({2, 9})}, {randn({7, 3})}};
  const auto check = [&](const Function& f) { round_trip(f, {randn({4, 6})}, dynamic, others); };
  check([](In in) { return in[0].t().reshape({-1}); });
  check([](In in) { return in[0].slice(1, 1, -1).unsqueeze(0).expand({3, -1, -1}); });
  check([](In in) { return in[0].select(1, -1) + in[0].slice(0, 0, 1).select(1, 0); });
  check([](In in) { return cat({in[0], zeros({in[0].size(0), 2})}, 1); });
  check([](In in) { return arange(in[0].size(0) * in[0].size(1)).view(in[0].sizes()) + in[0]; });
  check([](In in) { return in[0].flip({0, 1}); });
  check([](In in) {
    Tensor y = in[0] * 2;
    y.add_(1);
    y.relu_();
    return y;
  });
  round_trip([](In in) { return in[0].diagonal() + as_strided(in[0], {4}, {2}, 3); },
             {randn({4, 6})});
  round_trip(
      [](In in) {
        Tensor y = in[0].clone();
        y.select(1, 2).fill_(7);
        y.slice(0, 1, 3).mul_(in[0].slice(0, 0, 2));
        return y + y.t().contiguous().t();
      },
      {randn({4, 6})});
}

TEST(OnnxExport, indexing) {
  const Tensor rows = tensor(std::vector<int64_t>{2, 0, -1}, {.dtype = kInt64});
  const Tensor columns = tensor(std::vector<int64_t>{1, 1, 3}, {.dtype = kInt64});
  const auto check = [&](const Function& f) { round_trip(f, {randn({3, 4, 5}), rows, columns}); };
  check([](In in) { return in[0].index({in[1]}); });
  check([](In in) { return in[0].index({Slice(), in[2]}); });
  check([](In in) { return in[0].index({in[1], in[2]}); });
  check([](In in) { return in[0].index({Slice(), in[2], in[1]}); });
  check([](In in) { return in[0].index({in[1], Slice(), in[2]}); });
  check([](In in) {
    Tensor y = in[0].clone();
    y.index_put_({Slice(), in[2]}, 1.5);
    return y;
  });
  check([](In in) { return index_add(in[0], 0, in[1].remainder(3), in[0]); });
  check([](In in) { return gather(in[0], 2, in[2].view({3, 1, 1}).expand({3, 4, 1})); });
  check([](In in) { return to(one_hot(in[2], 4), kFloat32); });
}

TEST(OnnxExport, is_refused_by_name) {
  const Out x{randn({4, 6})};
  EXPECT_TRUE(contains(export_error([](In in) { return dropout(in[0], 0.5, true); }, x),
                       "op 'dropout' cannot be exported"));
  EXPECT_TRUE(contains(export_error([](In in) { return cumprod(in[0], 0); }, x),
                       "op 'cumprod' cannot be exported: there is no operator for it"));
  EXPECT_TRUE(contains(export_error([](In in) { return full({2}, in[0].sum().item<double>()); }, x),
                       "asks for the value"));
  EXPECT_TRUE(contains(export_error([](In in) { return in[0].add_(1); }, x),
                       "writes into one of its inputs, of shape [4, 6]"));
  const Tensor captured = zeros({6});
  EXPECT_TRUE(contains(export_error([&](In in) { return captured.add_(in[0].select(0, 0)); }, x),
                       "writes into a tensor that it captured"));
  EXPECT_TRUE(contains(export_error([](In in) { return in[0]; }, x, {.opset_version = 17}),
                       "opset_version must be from 18 to 23, got 17"));
  EXPECT_TRUE(contains(export_error([](In in) { return in[0]; }, x, {.input_names = {"a", "b"}}),
                       "2 input names for 1 input"));
  EXPECT_TRUE(contains(
      export_error([](In in) { return in[0]; }, x, {.input_names = {"a"}, .output_names = {"a"}}),
      "the name 'a' of output 0 is that of another"));
  EXPECT_TRUE(
      contains(export_error([](In in) { return in[0]; }, x, {.dynamic_axes = {{"z", {{0, "n"}}}}}),
               "dynamic_axes names 'z', which is neither an input nor an output"));
}

// A size that is a plain number in the program must follow the input's, or the export must fail.
TEST(OnnxExport, sizes_that_are_frozen_are_refused) {
  const Out x{randn({4, 6})};
  const auto error = [&](const Function& f) { return export_error(f, x, batch_of("x")); };
  EXPECT_TRUE(
      contains(error([](In in) { return in[0] / std::sqrt(static_cast<double>(in[0].size(0))); }),
               "op 'div' uses depends on the sizes"));
  EXPECT_TRUE(contains(error([](In in) {
                         return in[0].view({4, 6});
                       }),
                       "cannot be exported for other sizes of the dynamic axes"));
  EXPECT_TRUE(contains(error([](In in) {
                         Tensor sum = in[0].select(0, 0);
                         for (int64_t i = 1; i < in[0].size(0); ++i) sum = sum + in[0].select(0, i);
                         return sum;
                       }),
                       "takes other steps with other sizes"));
  EXPECT_TRUE(contains(error([](In in) {
                         Tensor y = in[0].clone();
                         y.select(1, 0).fill_(0);
                         return y;
                       }),
                       "the positions of a tensor that the function writes to in part"));
  EXPECT_TRUE(contains(export_error([](In in) { return in[0].sum({0}); }, x,
                                    {.input_names = {"x"},
                                     .output_names = {"y"},
                                     .dynamic_axes = {{"x", {{0, "n"}}}, {"y", {{0, "n"}}}}}),
                       "but its size is always 6"));
}

TEST(OnnxExport, opset_versions_have_their_own_operators) {
  const Function function = [](In in) { return gelu(in[0]) + gelu(in[0], "tanh"); };
  for (int64_t version = onnx::kLowestWritten; version <= onnx::kHighestWritten; ++version) {
    const ModelProto model = round_trip(function, {randn({4, 6})}, {.opset_version = version});
    EXPECT_EQ(model.opset_version, version);
    EXPECT_EQ(count(model, "Gelu"), version >= 20 ? 2u : 0u);
  }
}

// An imported program is a function like any other.
TEST(OnnxImport, can_be_exported_again_and_differentiated) {
  nn::Sequential net(nn::Linear(6, 5), nn::GELU(), nn::Linear(5, 2));
  const Function function = [&](In in) { return net(in[0]); };
  const onnx::Program program(
      onnx::export_model(listed(function), Out{randn({4, 6})}, batch_of("x")));
  const Function imported = [&](In in) { return program(in).at(0); };
  round_trip(imported, {randn({4, 6})}, batch_of("x"), {{randn({9, 6})}});
  const Tensor x = randn({3, 6}, {.requires_grad = true}), y = x.detach().requires_grad_();
  function(Out{x}).sum().backward();
  imported(Out{y}).sum().backward();
  EXPECT_TRUE(allclose(x.grad(), y.grad(), 1e-5, 1e-6));
}

}  // namespace
}  // namespace tensora::test
