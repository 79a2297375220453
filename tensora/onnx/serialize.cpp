#include <filesystem>

#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/onnx/proto.h"
#include "tensora/onnx/wire.h"

namespace tensora::onnx {
namespace {

constexpr uint64_t kMostBytes = (uint64_t{1} << 31) - 1;  // of a message of Protocol Buffers
constexpr size_t kExternalFrom = 1024;
constexpr uint64_t kExternalAlignment = 64;

/// Collects the tensors that lie in the other file.
struct ExternalData {
  std::string location;
  std::vector<std::pair<uint64_t, Tensor>> parts;  // where each begins
  uint64_t end = 0;

  uint64_t add(const Tensor& tensor) {
    const uint64_t start = (end + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
    parts.emplace_back(start, tensor);
    end = start + tensor.nbytes();
    return start;
  }
};

void put_entry(WireWriter& out, uint32_t number, std::string_view key, std::string_view value) {
  WireWriter entry;
  entry.put_text(1, key);
  entry.put_text(2, value);
  out.put_message(number, entry);
}

// A TensorProto as a head and the bytes of raw_data behind it, so that weights are not copied.
struct TensorMessage {
  WireWriter head;
  io::ConstBytes data;

  uint64_t size() const { return head.text().size() + data.size(); }
};

TensorMessage message_of(const std::string& name, const Tensor& tensor, ExternalData* external) {
  TensorMessage message;
  if (tensor.dim() > 0) message.head.put_packed_ints(1, tensor.sizes().vec());
  message.head.put_int(2, element_type(tensor.dtype()));
  if (!name.empty()) message.head.put_text(8, name);
  if (external && tensor.nbytes() >= kExternalFrom) {
    const uint64_t start = external->add(tensor);
    put_entry(message.head, 13, "location", external->location);
    put_entry(message.head, 13, "offset", std::to_string(start));
    put_entry(message.head, 13, "length", std::to_string(tensor.nbytes()));
    message.head.put_int(14, 1);
    return message;
  }
  message.data = io::contents(tensor);
  message.head.begin_bytes(9, message.data.size());
  return message;
}

WireWriter message_of(const GraphProto& graph);

std::string whole(const TensorMessage& message) {
  std::string text = message.head.text();
  text.append(reinterpret_cast<const char*>(message.data.data()), message.data.size());
  return text;
}

WireWriter message_of(const AttributeProto& attribute) {
  using Type = AttributeProto::Type;
  WireWriter out;
  out.put_text(1, attribute.name);
  switch (attribute.type) {
    case Type::floating:
      out.put_float(2, attribute.f);
      break;
    case Type::integer:
      out.put_int(3, attribute.i);
      break;
    case Type::text:
      out.put_text(4, attribute.s);
      break;
    case Type::tensor: {
      const Tensor plain = io::writable_form(attribute.t, attribute.name);
      out.put_text(5, whole(message_of("", plain, nullptr)));
      break;
    }
    case Type::graph:
      out.put_message(6, message_of(*attribute.g));
      break;
    case Type::floats:
      out.put_packed_floats(7, attribute.floats);
      break;
    case Type::ints:
      out.put_packed_ints(8, attribute.ints);
      break;
    case Type::texts:
      for (const std::string& text : attribute.strings) out.put_text(9, text);
      break;
    default:
      fail("onnx: the attribute '", attribute.name, "' cannot be written");
  }
  out.put_int(20, static_cast<int64_t>(attribute.type));
  return out;
}

WireWriter message_of(const NodeProto& node) {
  WireWriter out;
  for (const std::string& input : node.inputs) out.put_text(1, input);
  for (const std::string& output : node.outputs) out.put_text(2, output);
  out.put_text(3, node.name);
  out.put_text(4, node.op_type);
  for (const AttributeProto& attribute : node.attributes) out.put_message(5, message_of(attribute));
  if (!node.domain.empty()) out.put_text(7, node.domain);
  return out;
}

WireWriter message_of(const ValueInfoProto& value) {
  WireWriter tensor, type, out;
  tensor.put_int(1, element_type(value.dtype));
  if (value.sizes) {
    WireWriter shape;
    for (const Dimension& dimension : *value.sizes) {
      WireWriter size;
      if (dimension.size)
        size.put_int(1, *dimension.size);
      else if (!dimension.symbol.empty())
        size.put_text(2, dimension.symbol);
      shape.put_message(1, size);
    }
    tensor.put_message(2, shape);
  }
  type.put_message(1, tensor);
  out.put_text(1, value.name);
  out.put_message(2, type);
  return out;
}

// A graph inside of a node.
WireWriter message_of(const GraphProto& graph) {
  WireWriter out;
  for (const NodeProto& node : graph.nodes) out.put_message(1, message_of(node));
  out.put_text(2, graph.name);
  for (const auto& [name, tensor] : graph.initializers)
    out.put_text(5, whole(message_of(name, io::writable_form(tensor, name), nullptr)));
  for (const ValueInfoProto& input : graph.inputs) out.put_message(11, message_of(input));
  for (const ValueInfoProto& output : graph.outputs) out.put_message(12, message_of(output));
  return out;
}

/// A whole file as pieces in order; some are the memory of tensors.
struct Pieces {
  std::vector<WireWriter> texts;
  std::vector<TensorMessage> tensors;
  std::vector<Tensor> kept;  // whose memory the pieces refer to
  ExternalData external;

  template <class Write>
  void write(const Write& write) const {
    write(io::bytes_of_text(texts[0].text()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      WireWriter head;
      head.begin_bytes(5, tensors[i].size());
      write(io::bytes_of_text(head.text()));
      write(io::bytes_of_text(tensors[i].head.text()));
      write(tensors[i].data);
    }
    write(io::bytes_of_text(texts[1].text()));
  }
};

// Everything in front of the initializers, and everything behind them: the graph is the last
// field of the model, and its inputs and outputs are the last of the graph.
Pieces pieces_of(const ModelProto& model, const std::string* location) {
  Pieces result;
  if (location) result.external.location = *location;
  WireWriter front, back, opset;
  front.put_int(1, model.ir_version);
  front.put_text(2, model.producer_name);
  front.put_text(3, model.producer_version);
  if (!model.doc_string.empty()) front.put_text(6, model.doc_string);
  opset.put_text(1, "");
  opset.put_int(2, model.opset_version);
  front.put_message(8, opset);
  for (const auto& [key, value] : model.metadata) put_entry(front, 14, key, value);

  WireWriter nodes;
  for (const NodeProto& node : model.graph.nodes) nodes.put_message(1, message_of(node));
  nodes.put_text(2, model.graph.name);
  uint64_t size = nodes.text().size();
  for (const auto& [name, tensor] : model.graph.initializers) {
    result.kept.push_back(io::writable_form(tensor, name));
    result.tensors.push_back(
        message_of(name, result.kept.back(), location ? &result.external : nullptr));
    WireWriter head;
    head.begin_bytes(5, result.tensors.back().size());
    size += head.text().size() + result.tensors.back().size();
  }
  for (const ValueInfoProto& input : model.graph.inputs) back.put_message(11, message_of(input));
  for (const ValueInfoProto& output : model.graph.outputs) back.put_message(12, message_of(output));
  size += back.text().size();
  front.begin_bytes(7, size);
  check(size + front.text().size() <= kMostBytes, "onnx: the model has ", size,
        " bytes, and Protocol Buffers allow 2 GiB in one file; set external_data");
  front.append(nodes);
  result.texts.push_back(std::move(front));
  result.texts.push_back(std::move(back));
  return result;
}

}  // namespace

void write_model(const ModelProto& model, const std::string& path, bool external_data) {
  called_as("onnx", [&] {
    check_model(model);
    const std::string location = std::filesystem::path(path).filename().string() + ".data";
    const Pieces pieces = pieces_of(model, external_data ? &location : nullptr);
    if (external_data) {
      io::AtomicFile data(path + ".data");
      for (const auto& [start, tensor] : pieces.external.parts) {
        data.write(std::string(start - data.position(), '\0'));
        data.write(io::contents(tensor));
      }
      data.commit();
    }
    io::AtomicFile file(path);
    pieces.write([&](io::ConstBytes bytes) { file.write(bytes); });
    file.commit();
  });
}

std::string serialize_model(const ModelProto& model) {
  check_model(model);
  std::string result;
  pieces_of(model, nullptr).write([&](io::ConstBytes bytes) {
    result.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return result;
}

}  // namespace tensora::onnx
