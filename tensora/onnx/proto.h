#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensora/core/tensor.h"

// The contents of an ONNX file, under the names of ONNX's schema (onnx.proto). What the library
// neither writes nor runs (training information, functions, sparse tensors, quantization
// annotations) has no member here; a file that needs it is refused when it is read.

namespace tensora::onnx {

struct GraphProto;

/// One attribute of a node. Lists of tensors or graphs, sparse tensors and types are not read.
struct AttributeProto {
  enum class Type : uint8_t {
    undefined = 0,
    floating = 1,
    integer = 2,
    text = 3,
    tensor = 4,
    graph = 5,
    floats = 6,
    ints = 7,
    texts = 8,
    other = 9,
  };
  std::string name;
  Type type = Type::undefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  Tensor t;
  std::shared_ptr<const GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;

  static AttributeProto of(std::string name, int64_t value);
  static AttributeProto of(std::string name, double value);
  static AttributeProto of(std::string name, std::string value);
  static AttributeProto of(std::string name, std::vector<int64_t> values);
  static AttributeProto of(std::string name, std::vector<std::string> values);
  static AttributeProto of(std::string name, Tensor value);
};
/// Equality of everything but the contents of tensors and graphs, which are equal if they are the
/// same one.
bool operator==(const AttributeProto& a, const AttributeProto& b);

/// One step of a graph. An empty name among the inputs is an optional input that is not given.
struct NodeProto {
  std::string op_type, domain, name;
  std::vector<std::string> inputs, outputs;
  std::vector<AttributeProto> attributes;

  /// Null if there is none of this name.
  const AttributeProto* find(std::string_view attribute) const;
};

/// A size of an input or output: a number, or a symbol that stands for any, or neither.
struct Dimension {
  std::optional<int64_t> size;
  std::string symbol;
};

/// What is known of an input or output of a graph.
struct ValueInfoProto {
  std::string name;
  DType dtype = DType::float32;
  std::optional<std::vector<Dimension>> sizes;  // nothing: the rank is unknown
};

/// A list of nodes, each after those whose results it uses, with named constants.
struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<std::pair<std::string, Tensor>> initializers;  // on the CPU, row-major
  std::vector<ValueInfoProto> inputs, outputs;
};

/// A whole file.
struct ModelProto {
  int64_t ir_version = 0;
  int64_t opset_version = 0;  // of ONNX's own operators
  std::string producer_name, producer_version, doc_string;
  std::map<std::string, std::string> metadata;
  GraphProto graph;
};

/// The lowest and the highest version of ONNX's operators that are written, and that are read.
inline constexpr int64_t kLowestWritten = 18, kHighestWritten = 23;
inline constexpr int64_t kLowestRead = 11, kHighestRead = 23;

/// How ONNX numbers a dtype; throws for those that it has no number for.
int32_t element_type(DType dtype);
/// The dtype of that number; throws, naming `what`, for strings and unknown numbers.
DType dtype_of_element(int64_t type, std::string_view what);

/// Reads a file whole and checks it: every field's encoding, sizes and data of all tensors, names
/// that are defined once and before they are used, so that there is no cycle, and that the
/// operators are ONNX's own. Tensors are views of the mapped file. External data must lie in the
/// folder of the file or below it.
ModelProto read_model(const std::string& path);
/// The same of a file's bytes; external data is refused. The tensors own their memory.
ModelProto parse_model(std::string_view bytes);

/// What read_model checks of names and order; throws, naming the node.
void check_model(const ModelProto& model);

/// Writes a file, atomically. With `external_data` the tensors of 1 KiB and more lie in the file
/// `path` + ".data" beside it; a model of 2 GiB and more, which Protocol Buffers do not allow in
/// one file, needs that.
void write_model(const ModelProto& model, const std::string& path, bool external_data = false);
/// A file's bytes.
std::string serialize_model(const ModelProto& model);

}  // namespace tensora::onnx
