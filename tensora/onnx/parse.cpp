#include <cstring>
#include <filesystem>

#include "tensora/io/mapped_file.h"
#include "tensora/onnx/proto.h"
#include "tensora/onnx/wire.h"

// Field numbers are those of onnx.proto. Fields that do not change what a model computes (texts for
// people, shapes of inner values, training information) are skipped; unknown ones are, too, as
// Protocol Buffers ask for.

namespace tensora::onnx {
namespace {

using Type = AttributeProto::Type;

/// Opens the files of external data, each once, and only below one folder.
class ExternalFiles {
 public:
  /// Without a folder, external data is refused.
  explicit ExternalFiles(std::optional<std::filesystem::path> folder)
      : folder_(std::move(folder)) {}

  std::shared_ptr<io::MappedFile> open(const std::string& location, const std::string& tensor) {
    check(folder_.has_value(), "the tensor '", tensor,
          "' lies in another file; read the model by its path");
    const auto known = files_.find(location);
    if (known != files_.end()) return known->second;
    const std::filesystem::path relative(location);
    bool inside =
        !location.empty() && relative.is_relative() && location.find('\0') == std::string::npos;
    for (const auto& part : relative) inside &= part != "..";
    check(inside, "the tensor '", tensor, "' lies in '", location,
          "'; only files in the folder of the model, or below it, are read");
    // A symbolic link must not lead out of the folder either.
    std::error_code error;
    const auto root = std::filesystem::canonical(*folder_, error);
    const auto path = std::filesystem::canonical(*folder_ / relative, error);
    check(!error, "the tensor '", tensor, "' lies in '", location,
          "', which cannot be opened: ", error.message());
    const auto [end, unused] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
    check(end == root.end(), "the tensor '", tensor, "' lies in '", location,
          "', a link that leads out of the folder of the model");
    return files_[location] = io::MappedFile::open(path.string());
  }

 private:
  std::optional<std::filesystem::path> folder_;
  std::map<std::string, std::shared_ptr<io::MappedFile>> files_;
};

uint64_t number_in(const std::string& text, std::string_view what) {
  uint64_t value = 0;
  bool fits = !text.empty() && text.size() < 20;
  for (char digit : text) {
    fits &= digit >= '0' && digit <= '9';
    value = value * 10 + static_cast<uint64_t>(digit - '0');
  }
  check(fits, what, " is '", text, "', which is not a number");
  return value;
}

/// A file's bytes and what keeps them.
struct Source {
  io::Bytes bytes;
  std::shared_ptr<void> owner;
  ExternalFiles* external;
  int depth;  // of graphs inside of nodes

  // A message's bytes lie in the file.
  io::Bytes writable(io::ConstBytes part) const {
    if (part.empty()) return {};
    return bytes.subspan(static_cast<size_t>(part.data() - bytes.data()), part.size());
  }
};

std::pair<std::string, std::string> parse_entry(io::ConstBytes message) {
  std::pair<std::string, std::string> entry;
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) entry.first = field.to_text("StringStringEntryProto.key");
    if (field.number == 2) entry.second = field.to_text("StringStringEntryProto.value");
  }
  return entry;
}

// A TensorProto before its data becomes a tensor.
struct TensorFields {
  std::string name;
  std::vector<int64_t> dims;
  int64_t data_type = 0, location = 0;
  std::optional<io::ConstBytes> raw;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> ints;  // of int32_data, int64_data and uint64_data
  std::map<std::string, std::string> external;
};

TensorFields parse_tensor_fields(io::ConstBytes message) {
  TensorFields result;
  WireReader reader(message);
  for (WireField field; reader.next(field);) switch (field.number) {
      case 1:
        for_each_int(field, "TensorProto.dims", [&](int64_t size) { result.dims.push_back(size); });
        break;
      case 2:
        result.data_type = field.to_int("TensorProto.data_type");
        break;
      case 3:
        fail("a tensor is stored in segments, which ONNX has given up");
      case 4:
        for_each_float(field, "TensorProto.float_data",
                       [&](float value) { result.floats.push_back(value); });
        break;
      case 5:
      case 7:
      case 11:
        for_each_int(field, "TensorProto's integers",
                     [&](int64_t value) { result.ints.push_back(value); });
        break;
      case 8:
        result.name = field.to_text("TensorProto.name");
        break;
      case 9:
        result.raw = field.to_bytes("TensorProto.raw_data");
        break;
      case 10:
        for_each_double(field, "TensorProto.double_data",
                        [&](double value) { result.doubles.push_back(value); });
        break;
      case 13:
        result.external.insert(parse_entry(field.to_bytes("TensorProto.external_data")));
        break;
      case 14:
        result.location = field.to_int("TensorProto.data_location");
        break;
      default:
        break;
    }
  return result;
}

// The bytes of a tensor from a list of numbers, of which two make a complex one.
template <class Element, class Number>
std::string packed(const std::vector<Number>& numbers) {
  std::string bytes;
  bytes.reserve(numbers.size() * sizeof(Element));
  for (Number number : numbers) io::append_number(bytes, static_cast<Element>(number));
  return bytes;
}

// Which of the lists holds the numbers of a dtype is ONNX's convention; halves are given by their
// bits.
std::string list_bytes(const TensorFields& fields, DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::complex64:
      return packed<float>(fields.floats);
    case DType::float64:
    case DType::complex128:
      return packed<double>(fields.doubles);
    case DType::int64:
    case DType::uint64:
      return packed<int64_t>(fields.ints);
    case DType::int32:
    case DType::uint32:
      return packed<int32_t>(fields.ints);
    default:
      break;
  }
  return element_size(dtype) == 2 ? packed<int16_t>(fields.ints) : packed<int8_t>(fields.ints);
}

Tensor external_tensor(const TensorFields& fields, const Shape& sizes, DType dtype,
                       const Source& source) {
  check(fields.external.contains("location"), "the tensor '", fields.name,
        "' is said to lie in another file, whose name is missing");
  const auto file = source.external->open(fields.external.at("location"), fields.name);
  const auto number = [&](const char* key, uint64_t otherwise) {
    const auto found = fields.external.find(key);
    return found == fields.external.end()
               ? otherwise
               : number_in(found->second,
                           concat("the ", key, " of the tensor '", fields.name, "'"));
  };
  const uint64_t needed = io::dense_bytes(sizes, dtype), length = number("length", needed);
  check(length == needed, "the tensor '", fields.name, "' of shape ", sizes, " and dtype ", dtype,
        " has ", needed, " bytes, and ", length, " in the other file");
  const io::ConstBytes part = io::part_of(file->bytes(), number("offset", 0), length);
  const io::Bytes bytes = file->bytes();
  const auto start = part.empty() ? 0 : static_cast<size_t>(part.data() - bytes.data());
  return io::tensor_over(bytes.subspan(start, part.size()), sizes, dtype, file);
}

Tensor parse_tensor(io::ConstBytes message, const Source& source, std::string& name) {
  const TensorFields fields = parse_tensor_fields(message);
  name = fields.name;
  check(fields.dims.size() <= static_cast<size_t>(kMaxDims), "the tensor '", name, "' has ",
        fields.dims.size(), " dims; at most ", kMaxDims, " are possible");
  const DType dtype = dtype_of_element(fields.data_type, concat("the tensor '", name, "'"));
  const Shape sizes(fields.dims);
  if (fields.location == 1) return external_tensor(fields, sizes, dtype, source);
  check(fields.location == 0, "the tensor '", name, "' has the data location ", fields.location);
  const uint64_t needed = io::dense_bytes(sizes, dtype);
  const auto check_size = [&](size_t given) {
    check(given == needed, "the tensor '", name, "' of shape ", sizes, " and dtype ", dtype,
          " has ", needed, " bytes, and ", given, " in the file");
  };
  if (fields.raw) {
    check_size(fields.raw->size());
    return io::tensor_over(source.writable(*fields.raw), sizes, dtype, source.owner);
  }
  std::string bytes = list_bytes(fields, dtype);
  check_size(bytes.size());
  const auto owner = std::make_shared<std::string>(std::move(bytes));
  return io::tensor_over({reinterpret_cast<uint8_t*>(owner->data()), owner->size()}, sizes, dtype,
                         owner);
}

GraphProto parse_graph(io::ConstBytes message, const Source& source);

constexpr int kMostDepth = 8;

std::shared_ptr<const GraphProto> parse_subgraph(io::ConstBytes message, Source source) {
  check(++source.depth <= kMostDepth, "graphs lie inside of one another more than ", kMostDepth,
        " deep");
  return std::make_shared<const GraphProto>(parse_graph(message, source));
}

AttributeProto parse_attribute(io::ConstBytes message, const Source& source) {
  AttributeProto result;
  int64_t type = 0;
  std::string unused;
  WireReader reader(message);
  for (WireField field; reader.next(field);) switch (field.number) {
      case 1:
        result.name = field.to_text("AttributeProto.name");
        break;
      case 2:
        result.f = field.to_float("AttributeProto.f");
        break;
      case 3:
        result.i = field.to_int("AttributeProto.i");
        break;
      case 4:
        result.s = field.to_text("AttributeProto.s");
        break;
      case 5:
        result.t = parse_tensor(field.to_bytes("AttributeProto.t"), source, unused);
        break;
      case 6:
        result.g = parse_subgraph(field.to_bytes("AttributeProto.g"), source);
        break;
      case 7:
        for_each_float(field, "AttributeProto.floats",
                       [&](float value) { result.floats.push_back(value); });
        break;
      case 8:
        for_each_int(field, "AttributeProto.ints",
                     [&](int64_t value) { result.ints.push_back(value); });
        break;
      case 9:
        result.strings.push_back(field.to_text("AttributeProto.strings"));
        break;
      case 20:
        type = field.to_int("AttributeProto.type");
        break;
      case 21:
        fail("the attribute '", result.name, "' refers to one of a function");
      default:
        break;
    }
  check(type >= 1 && type <= 14, "the attribute '", result.name, "' has the type ", type);
  result.type = type <= 8 ? static_cast<Type>(type) : Type::other;
  check(result.type != Type::tensor || result.t.defined(), "the attribute '", result.name,
        "' should hold a tensor and does not");
  check(result.type != Type::graph || result.g, "the attribute '", result.name,
        "' should hold a graph and does not");
  return result;
}

NodeProto parse_node(io::ConstBytes message, const Source& source) {
  NodeProto result;
  WireReader reader(message);
  for (WireField field; reader.next(field);) switch (field.number) {
      case 1:
        result.inputs.push_back(field.to_text("NodeProto.input"));
        break;
      case 2:
        result.outputs.push_back(field.to_text("NodeProto.output"));
        break;
      case 3:
        result.name = field.to_text("NodeProto.name");
        break;
      case 4:
        result.op_type = field.to_text("NodeProto.op_type");
        break;
      case 5:
        result.attributes.push_back(parse_attribute(field.to_bytes("NodeProto.attribute"), source));
        break;
      case 7:
        result.domain = field.to_text("NodeProto.domain");
        break;
      default:
        break;
    }
  return result;
}

Dimension parse_dimension(io::ConstBytes message) {
  Dimension result;
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) result.size = field.to_int("Dimension.dim_value");
    if (field.number == 2) result.symbol = field.to_text("Dimension.dim_param");
  }
  check(!result.size || *result.size >= 0, "a size of an input or output is ",
        result.size.value_or(0));
  return result;
}

std::vector<Dimension> parse_shape(io::ConstBytes message) {
  std::vector<Dimension> result;
  WireReader reader(message);
  for (WireField field; reader.next(field);)
    if (field.number == 1) result.push_back(parse_dimension(field.to_bytes("Shape.dim")));
  return result;
}

ValueInfoProto parse_value_info(io::ConstBytes message) {
  ValueInfoProto result;
  io::ConstBytes type, tensor;
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) result.name = field.to_text("ValueInfoProto.name");
    if (field.number == 2) type = field.to_bytes("ValueInfoProto.type");
  }
  WireReader types(type);
  for (WireField field; types.next(field);)
    if (field.number == 1) tensor = field.to_bytes("TypeProto.tensor_type");
  check(!tensor.empty(), "'", result.name, "' is not a tensor; inputs and outputs must be");
  WireReader parts(tensor);
  int64_t element = 0;
  for (WireField field; parts.next(field);) {
    if (field.number == 1) element = field.to_int("TypeProto.elem_type");
    if (field.number == 2) result.sizes = parse_shape(field.to_bytes("TypeProto.shape"));
  }
  result.dtype = dtype_of_element(element, concat("'", result.name, "'"));
  return result;
}

GraphProto parse_graph(io::ConstBytes message, const Source& source) {
  GraphProto result;
  WireReader reader(message);
  for (WireField field; reader.next(field);) switch (field.number) {
      case 1:
        result.nodes.push_back(parse_node(field.to_bytes("GraphProto.node"), source));
        break;
      case 2:
        result.name = field.to_text("GraphProto.name");
        break;
      case 5: {
        std::string name;
        Tensor tensor = parse_tensor(field.to_bytes("GraphProto.initializer"), source, name);
        result.initializers.emplace_back(std::move(name), std::move(tensor));
        break;
      }
      case 11:
        result.inputs.push_back(parse_value_info(field.to_bytes("GraphProto.input")));
        break;
      case 12:
        result.outputs.push_back(parse_value_info(field.to_bytes("GraphProto.output")));
        break;
      case 15:
        fail("the graph has sparse initializers, which are not supported");
      default:
        break;
    }
  return result;
}

void parse_opset(io::ConstBytes message, ModelProto& model) {
  std::string domain;
  int64_t version = 0;
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) domain = field.to_text("OperatorSetIdProto.domain");
    if (field.number == 2) version = field.to_int("OperatorSetIdProto.version");
  }
  if (domain.empty() || domain == "ai.onnx") model.opset_version = version;
}

ModelProto parse(const Source& source) {
  ModelProto model;
  bool has_graph = false;
  WireReader reader(source.bytes);
  for (WireField field; reader.next(field);) switch (field.number) {
      case 1:
        model.ir_version = field.to_int("ModelProto.ir_version");
        break;
      case 2:
        model.producer_name = field.to_text("ModelProto.producer_name");
        break;
      case 3:
        model.producer_version = field.to_text("ModelProto.producer_version");
        break;
      case 6:
        model.doc_string = field.to_text("ModelProto.doc_string");
        break;
      case 7:
        check(!has_graph, "the file has two graphs");
        model.graph = parse_graph(field.to_bytes("ModelProto.graph"), source);
        has_graph = true;
        break;
      case 8:
        parse_opset(field.to_bytes("ModelProto.opset_import"), model);
        break;
      case 14:
        model.metadata.insert(parse_entry(field.to_bytes("ModelProto.metadata_props")));
        break;
      default:
        break;
    }
  check(has_graph && model.ir_version > 0, "this is not an ONNX file");
  check(model.opset_version >= kLowestRead && model.opset_version <= kHighestRead,
        "the file uses version ", model.opset_version, " of ONNX's operators; ", kLowestRead,
        " to ", kHighestRead, " can be read");
  check_model(model);
  return model;
}

}  // namespace

ModelProto read_model(const std::string& path) {
  return io::reading("onnx", path, [&] {
    const std::shared_ptr<io::MappedFile> file = io::MappedFile::open(path);
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    ExternalFiles external(folder.empty() ? "." : folder);
    return parse({file->bytes(), file, &external, 0});
  });
}

ModelProto parse_model(std::string_view bytes) {
  return called_as("onnx", [&] {
    const auto copy = std::make_shared<std::string>(bytes);
    ExternalFiles external(std::nullopt);
    return parse({{reinterpret_cast<uint8_t*>(copy->data()), copy->size()}, copy, &external, 0});
  });
}

}  // namespace tensora::onnx
