// ONNX files byte by byte: what is written, what is read, and what is refused.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tensora/onnx/import.h"
#include "tensora/onnx/proto.h"
#include "tests/helpers.h"
#include "tests/temporary_folder.h"

namespace tensora::test {
namespace {

using onnx::AttributeProto;
using onnx::ModelProto;
using onnx::NodeProto;
using ::tensora::testing::contains;
using ::tensora::testing::error_of;
using ::tensora::testing::TemporaryFolder;
using ::tensora::testing::Values;
using ::tensora::testing::values;

NodeProto node(const std::string& op, std::vector<std::string> inputs,
               std::vector<std::string> outputs, std::vector<AttributeProto> attributes = {}) {
  NodeProto result;
  result.op_type = op;
  result.name = op + "_node";
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  result.attributes = std::move(attributes);
  return result;
}

/// y = x + b, with b = [1, 2].
ModelProto sum_model() {
  ModelProto model;
  model.ir_version = 9;
  model.opset_version = 20;
  model.producer_name = "t";
  model.graph.name = "g";
  model.graph.inputs = {{"x", kFloat32, {{{std::nullopt, "n"}, {2, ""}}}}};
  model.graph.outputs = {{"y", kFloat32, {{{std::nullopt, "n"}, {2, ""}}}}};
  model.graph.initializers.emplace_back("b", tensor({1.0, 2.0}));
  model.graph.nodes.push_back(node("Add", {"x", "b"}, {"y"}));
  return model;
}

Tensor run(const ModelProto& model, std::vector<Tensor> inputs) {
  return onnx::Program(model)(inputs).at(0);
}

// Field by field as onnx.proto numbers them: 0x0a is field 1 as bytes, 0x08 field 1 as a varint.
TEST(OnnxBytes, are_those_of_protocol_buffers) {
  ModelProto model = sum_model();
  model.graph.initializers.clear();
  model.graph.nodes = {node("Neg", {"x"}, {"y"}, {AttributeProto::of("a", int64_t{-1})})};
  const std::string bytes = onnx::serialize_model(model);
  const std::string_view parts[] = {
      {"\x08\x09", 2},                  // ir_version 9
      {"\x12\x01t\x1a\x00", 5},         // producer_name "t", producer_version ""
      {"\x42\x04\x0a\x00\x10\x14", 6},  // opset_import: domain "", version 20
      {"\x3a\x59", 2},                  // graph of 89 bytes
      {"\x0a\x28", 2},                  // node of 40 bytes
      {"\x0a\x01x\x12\x01y", 6},        // input, output
      {"\x1a\x08Neg_node\x22\x03Neg", 15},
      {"\x2a\x11\x0a\x01"
       "a",
       5},                                                        // attribute of 17 bytes, its name
      {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},       // i = -1
      {"\xa0\x01\x02", 3},                                        // type INT, field 20
      {"\x12\x01g", 3},                                           // the graph's name
      {"\x5a\x14\x0a\x01x\x12\x0f\x0a\x0d\x08\x01\x12\x09", 13},  // input x: float, shape
      {"\x0a\x03\x12\x01n\x0a\x02\x08\x02", 9},                   // sizes "n", 2
      {"\x62\x14\x0a\x01y\x12\x0f\x0a\x0d\x08\x01\x12\x09", 13},  // output y
      {"\x0a\x03\x12\x01n\x0a\x02\x08\x02", 9},
  };
  std::string expected;
  for (std::string_view part : parts) expected += part;
  EXPECT_EQ(bytes, expected);
  const ModelProto again = onnx::parse_model(bytes);
  EXPECT_EQ(again.graph.nodes[0].attributes[0].i, -1);
  EXPECT_EQ(onnx::serialize_model(again), bytes);
}

TEST(OnnxBytes, hold_every_kind_of_attribute_and_dtype) {
  ModelProto model = sum_model();
  AttributeProto floats;
  floats.name = "floats";
  floats.type = AttributeProto::Type::floats;
  floats.floats = {0.5f, -1.0f};
  model.graph.nodes[0].attributes = {
      AttributeProto::of("f", 0.25),
      AttributeProto::of("s", std::string("text\0x", 6)),
      AttributeProto::of("is", std::vector<int64_t>{0, -1, INT64_MAX, INT64_MIN}),
      AttributeProto::of("ss", std::vector<std::string>{"a", ""}),
      AttributeProto::of("t", tensor({3.0})),
      floats};
  model.metadata["key"] = "value";
  for (DType dtype : {kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat64,
                      kComplex64, kUInt16, kUInt32, kUInt64, kFloat8E4M3})
    model.graph.initializers.emplace_back(std::string(name(dtype)),
                                          to(tensor({0.0, 1.0, 2.0}), dtype));
  model.graph.initializers.emplace_back("empty", zeros({0, 5}));
  model.graph.initializers.emplace_back("number", full({}, 7));
  const ModelProto again = onnx::parse_model(onnx::serialize_model(model));
  const auto& before = model.graph.nodes[0].attributes;
  const auto& after = again.graph.nodes[0].attributes;
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i].name == "t" || before[i] == after[i]) << before[i].name;
  EXPECT_EQ(again.metadata.at("key"), "value");
  ASSERT_EQ(again.graph.initializers.size(), model.graph.initializers.size());
  for (size_t i = 0; i < model.graph.initializers.size(); ++i) {
    const auto& [name, tensor] = again.graph.initializers[i];
    const Tensor& expected = model.graph.initializers[i].second;
    EXPECT_EQ(name, model.graph.initializers[i].first);
    EXPECT_EQ(tensor.dtype(), expected.dtype());
    EXPECT_EQ(tensor.sizes(), expected.sizes());
    EXPECT_EQ(0, std::memcmp(tensor.data_ptr(), expected.contiguous().data_ptr(), tensor.nbytes()));
  }
}

// Numbers may stand in typed lists, packed or one by one, instead of raw_data.
TEST(OnnxBytes, give_tensors_as_lists) {
  const auto model_with = [](const std::string& tensor) {
    std::string graph = "\x2a" + std::string(1, static_cast<char>(tensor.size())) + tensor;
    graph += std::string("\x62\x0b\x0a\x01t\x12\x06\x0a\x04\x08\x01\x12\x00", 13);
    std::string bytes("\x08\x09\x42\x02\x10\x14\x3a", 7);
    return bytes + static_cast<char>(graph.size()) + graph;
  };
  const auto read = [&](const std::string& tensor) {
    return onnx::parse_model(model_with(tensor)).graph.initializers.at(0).second;
  };
  const std::string dims = "\x08\x02", name = "\x42\x01t";
  EXPECT_EQ(
      values(read(dims + "\x10\x01" + name + std::string("\x22\x08\0\0\x80\x3f\0\0\0\x40", 10))),
      (Values{1, 2}));
  EXPECT_EQ(
      values(read(dims + "\x10\x01" + name + std::string("\x25\0\0\x80\x3f\x25\0\0\0\x40", 10))),
      (Values{1, 2}));
  EXPECT_EQ(values(read(dims + "\x10\x07" + name +
                        std::string("\x3a\x0b\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13))),
            (Values{5, -1}));
  EXPECT_EQ(read(dims + "\x10\x0a" + name + std::string("\x2a\x05\x80\x78\x80\x80\x01", 7)).dtype(),
            kFloat16);
  EXPECT_TRUE(contains(error_of([&] { read("\x08\x03\x10\x07" + name + "\x3a\x01\x05"); }),
                       "has 24 bytes, and 8 in the file"));
}

TEST(OnnxFile, keeps_large_tensors_beside_it) {
  const TemporaryFolder folder;
  ModelProto model = sum_model();
  model.graph.initializers = {{"b", randn({1, 600})}, {"c", randn({600, 1})}, {"d", tensor({1.0})}};
  model.graph.inputs = {{"x", kFloat32, std::nullopt}};
  model.graph.nodes = {node("Add", {"x", "b"}, {"z"}), node("Add", {"z", "c"}, {"u"}),
                       node("Mul", {"u", "d"}, {"y"})};
  onnx::write_model(model, folder.path("m.onnx"), true);
  EXPECT_LT(std::filesystem::file_size(folder.path("m.onnx")), 700u);
  EXPECT_EQ(std::filesystem::file_size(folder.path("m.onnx.data")), 2432u + 2400u);
  const Tensor x = randn({1, 600});
  EXPECT_TRUE(equal(run(onnx::read_model(folder.path("m.onnx")), {x}), run(model, {x})));
}

TEST(OnnxFile, does_not_lead_out_of_its_folder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("inner"));
  ModelProto model = sum_model();
  model.graph.initializers = {{"b", zeros({1, 600})}};
  const std::string path = folder.path("inner/m.onnx");
  onnx::write_model(model, path, true);
  std::filesystem::rename(path + ".data", folder.path("secret"));
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto error_for = [&](const std::string& location) {
    std::string changed = bytes;
    changed.replace(changed.find("m.onnx.data"), 11, location);
    std::ofstream(path, std::ios::binary) << changed;
    return error_of([&] { onnx::read_model(path); });
  };
  EXPECT_TRUE(contains(error_for("../secret.."), "only files in the folder"));
  EXPECT_TRUE(contains(error_for("a/../../sec"), "only files in the folder"));
  EXPECT_TRUE(contains(error_for("/etc/passwd"), "only files in the folder"));
  EXPECT_TRUE(contains(error_for("m.onnx.data"), "cannot be opened"));
  std::filesystem::create_symlink(folder.path("secret"), path + ".data");
  EXPECT_TRUE(contains(error_for("m.onnx.data"), "leads out of the folder"));
  std::filesystem::remove(path + ".data");
  std::filesystem::copy_file(folder.path("secret"), path + ".data");
  EXPECT_EQ(error_for("m.onnx.data"), "");
  std::filesystem::resize_file(path + ".data", 100);
  EXPECT_TRUE(contains(error_for("m.onnx.data"), "the file ends too early"));
  EXPECT_TRUE(contains(error_of([&] { onnx::parse_model(bytes); }), "read the model by its path"));
}

TEST(OnnxFile, says_what_is_wrong_with_a_graph) {
  const auto error_with = [](const std::function<void(ModelProto&)>& change) {
    ModelProto model = sum_model();
    change(model);
    return error_of([&] { onnx::Program{model}; });
  };
  EXPECT_EQ(error_with([](ModelProto&) {}), "");
  EXPECT_TRUE(
      contains(error_with([](ModelProto& m) { m.graph.nodes[0].inputs[1] = "nothing"; }),
               "the node 'Add_node' (Add) uses 'nothing', which nothing before it defines"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) {
                         m.graph.nodes = {node("Neg", {"b2"}, {"a2"}), node("Neg", {"a2"}, {"b2"}),
                                          node("Neg", {"a2"}, {"y"})};
                       }),
                       "uses 'b2', which nothing before it defines"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) { m.graph.nodes[0].outputs[0] = "x"; }),
                       "'x' is defined twice"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) { m.graph.nodes[0].op_type = "Loop"; }),
                       "(Loop): this operator cannot be imported"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) { m.graph.nodes[0].domain = "com.microsoft"; }),
                       "belongs to the domain 'com.microsoft'"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) {
                         m.graph.nodes[0].attributes = {AttributeProto::of("axis", int64_t{1})};
                       }),
                       "has the attribute 'axis', which is unknown"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) { m.graph.nodes[0].inputs.pop_back(); }),
                       "has 1 inputs"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) { m.graph.outputs[0].name = "z"; }),
                       "the output 'z' is not defined"));
  EXPECT_TRUE(contains(error_with([](ModelProto& m) { m.graph.outputs.clear(); }), "no outputs"));
}

TEST(OnnxFile, says_what_is_wrong_with_an_input) {
  const ModelProto model = sum_model();
  EXPECT_EQ(values(run(model, {ones({3, 2})})), (Values{2, 3, 2, 3, 2, 3}));
  EXPECT_TRUE(contains(error_of([&] {
                         run(model, {ones({3, 3})});
                       }),
                       "must have size 2 along dim 1"));
  EXPECT_TRUE(contains(error_of([&] { run(model, {ones({2})}); }), "must have 2 dims"));
  EXPECT_TRUE(contains(error_of([&] { run(model, {}); }), "has 1 inputs, got 0"));
  EXPECT_TRUE(contains(error_of([&] {
                         run(model, {ones({3, 2}, {.dtype = kInt64})});
                       }),
                       "must be float32, got int64"));
}

/// y = sum(x) > 0 ? x + b : -x; the branches use values from around them, and constants of their
/// own.
ModelProto branching_model() {
  ModelProto model = sum_model();
  const auto branch = [](NodeProto step, const std::string& result) {
    auto graph = std::make_shared<onnx::GraphProto>();
    graph->name = "branch";
    graph->initializers = {{"two", full({}, 2.0)}};
    graph->nodes = {std::move(step), node("Mul", {"inner", "two"}, {result})};
    graph->outputs = {{result, kFloat32, std::nullopt}};
    return graph;
  };
  NodeProto choice = node("If", {"positive"}, {"y"});
  for (const auto& [name, graph] :
       {std::pair{"then_branch", branch(node("Add", {"x", "b"}, {"inner"}), "r")},
        std::pair{"else_branch", branch(node("Neg", {"x"}, {"inner"}), "r")}}) {
    AttributeProto attribute;
    attribute.name = name;
    attribute.type = AttributeProto::Type::graph;
    attribute.g = graph;
    choice.attributes.push_back(std::move(attribute));
  }
  model.graph.initializers.emplace_back("zero", full({}, 0.0));
  model.graph.nodes = {
      node("ReduceSum", {"x"}, {"sum"}, {AttributeProto::of("keepdims", int64_t{0})}),
      node("Greater", {"sum", "zero"}, {"positive"}), choice};
  return model;
}

TEST(OnnxFile, may_be_damaged_anywhere) {
  ModelProto model = branching_model();
  model.graph.nodes.push_back(
      node("Constant", {}, {"c"}, {AttributeProto::of("value", ones({3}))}));
  model.graph.nodes.push_back(
      node("Softmax", {"c"}, {"s"}, {AttributeProto::of("axis", int64_t{0})}));
  const std::string bytes = onnx::serialize_model(model);
  size_t refused = 0;
  const auto read = [&](const std::string& text) {
    try {
      onnx::Program{onnx::parse_model(text)};
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what();
    } catch (const Error&) {
      ++refused;
    }
  };
  for (size_t size = 0; size < bytes.size(); ++size) read(bytes.substr(0, size));
  EXPECT_EQ(refused, bytes.size());
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) {
    std::string text = bytes;
    for (int k = 0; k < 1 + i % 3; ++k) text[random() % text.size()] = static_cast<char>(random());
    read(text);
  }
}

TEST(OnnxFile, may_choose_between_graphs) {
  const ModelProto model = onnx::parse_model(onnx::serialize_model(branching_model()));
  EXPECT_EQ(values(run(model, {ones({1, 2})})), (Values{4, 6}));
  EXPECT_EQ(values(run(model, {ones({1, 2}) * -3})), (Values{6, 6}));
  ModelProto wrong = branching_model();
  wrong.graph.nodes[2].attributes.pop_back();
  EXPECT_TRUE(contains(error_of([&] { run(wrong, {ones({1, 2}) * -3}); }), "no else_branch"));
  // Names of a branch are not seen outside of it, and do not hide those around it.
  wrong = branching_model();
  wrong.graph.outputs[0].name = "inner";
  EXPECT_TRUE(contains(error_of([&] { run(wrong, {ones({1, 2})}); }), "'inner' is not defined"));
  wrong = branching_model();
  auto graph = *wrong.graph.nodes[2].attributes[0].g;
  graph.nodes[0].outputs = {"sum"};
  wrong.graph.nodes[2].attributes[0].g = std::make_shared<onnx::GraphProto>(graph);
  EXPECT_TRUE(contains(error_of([&] { run(wrong, {ones({1, 2})}); }), "'sum' is defined twice"));
  // Graphs inside of one another have a limit.
  ModelProto deep = branching_model();
  deep.graph.nodes[2].attributes.resize(1);
  for (int i = 0; i < 10; ++i) {
    auto outer = std::make_shared<onnx::GraphProto>();
    outer->nodes = {deep.graph.nodes[2]};
    outer->nodes[0].outputs = {concat("y", i)};
    outer->outputs = {{concat("y", i), kFloat32, std::nullopt}};
    deep.graph.nodes[2].attributes[0].g = outer;
  }
  const std::string bytes = onnx::serialize_model(deep);
  EXPECT_TRUE(contains(error_of([&] { onnx::parse_model(bytes); }), "more than 8 deep"));
}

// A few bytes that ask for much.
TEST(OnnxFile, does_not_ask_for_more_than_it_holds) {
  const auto error_with = [](const std::string& tensor) {
    std::string graph = "\x2a" + std::string(1, static_cast<char>(tensor.size())) + tensor;
    const std::string bytes =
        std::string("\x08\x09\x42\x02\x10\x14\x3a", 7) + static_cast<char>(graph.size()) + graph;
    return error_of([&] { onnx::parse_model(bytes); });
  };
  const std::string huge = "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_NE(error_with(huge + "\x10\x01"), "");
  EXPECT_NE(error_with(huge + huge + "\x10\x01"), "");
  EXPECT_TRUE(contains(error_with("\x08\x7f\x10\x63"), "element type 99"));
  EXPECT_TRUE(contains(error_with("\x08\x01\x10\x08"), "strings"));
  std::string many;
  for (int i = 0; i < 20; ++i) many += "\x08\x01";
  EXPECT_TRUE(contains(error_with(many + "\x10\x01"), "has 20 dims"));
  const std::string empty_graph("\x08\x09\x42\x02\x10\x63\x3a\x00", 8);
  EXPECT_TRUE(contains(error_of([&] { onnx::parse_model(empty_graph); }),
                       "uses version 99 of ONNX's operators"));
}

}  // namespace
}  // namespace tensora::test
