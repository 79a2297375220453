#include "tensora/llm/gguf/gguf_writer.h"

#include <bit>
#include <set>

#include "tensora/base/utf8.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/llm/gguf/gguf_format.h"

namespace tensora::llm {
namespace {

using io::append_number;

void append_string(std::string& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  out += text;
}

void append_integer(std::string& out, MetadataType type, int64_t value) {
  switch (type) {
    case MetadataType::uint8:
    case MetadataType::int8:
    case MetadataType::boolean:
      return append_number(out, static_cast<uint8_t>(value));
    case MetadataType::uint16:
    case MetadataType::int16:
      return append_number(out, static_cast<uint16_t>(value));
    case MetadataType::uint32:
    case MetadataType::int32:
      return append_number(out, static_cast<uint32_t>(value));
    default:
      return append_number(out, value);
  }
}

struct ValueWriter {
  std::string& out;
  MetadataType type;

  void operator()(bool value) { append_integer(out, type, value ? 1 : 0); }
  void operator()(int64_t value) { append_integer(out, type, value); }
  void operator()(double value) {
    if (type == MetadataType::float32)
      append_number(out, static_cast<float>(value));
    else
      append_number(out, value);
  }
  void operator()(const std::string& value) { append_string(out, value); }
  template <class T>
  void operator()(const std::vector<T>& values) {
    for (const T& value : values) (*this)(value);
  }
};

void append_value(std::string& out, const MetadataValue& value) {
  if (value.is_array()) append_number(out, kGgufArrayType);
  append_number(out, static_cast<uint32_t>(value.type()));
  if (value.is_array()) append_number(out, static_cast<uint64_t>(value.size()));
  std::visit(ValueWriter{out, value.type()}, value.contents());
}

uint64_t alignment_of(const Metadata& metadata) {
  const auto alignment =
      static_cast<uint64_t>(metadata.get_or("general.alignment", int64_t{kGgufAlignment}));
  check(std::has_single_bit(alignment) && alignment >= 8 && alignment <= (uint64_t{1} << 30),
        "'general.alignment': expected a power of two from 8, got ", alignment);
  return alignment;
}

uint64_t bytes_of_source(const TensorSource& tensor) {
  const int64_t row = tensor.sizes.empty() ? 1 : tensor.sizes.back();
  const int block = dtype_info(tensor.dtype).block_numbers;
  check(row % block == 0, "the tensor '", tensor.name, "' of ", tensor.dtype, " has rows of ", row,
        " numbers; expected a multiple of ", block);
  return static_cast<uint64_t>(bytes_of(tensor.dtype, tensor.sizes.numel()));
}

// The infos of all tensors; each begins at the next aligned byte.
std::string tensor_infos(std::span<const TensorSource> tensors, uint64_t alignment) {
  std::string out;
  std::set<std::string_view> names;
  uint64_t position = 0;
  for (const TensorSource& tensor : tensors) {
    check(!tensor.name.empty() && tensor.name.size() <= kGgufMaxNameBytes, "the name '",
          tensor.name, "' of a tensor has ", tensor.name.size(), " bytes; expected 1 to ",
          kGgufMaxNameBytes);
    check(valid_utf8(tensor.name) == tensor.name, "the name of a tensor is not UTF-8: '",
          tensor.name, "'");
    check(names.insert(tensor.name).second, "two tensors are called '", tensor.name, "'");
    check(tensor.sizes.size() <= kGgufMaxDims, "the tensor '", tensor.name, "' has ",
          tensor.sizes.size(), " dims; expected at most ", kGgufMaxDims);
    const GgufType* type = gguf_type(tensor.dtype);
    check(type != nullptr, "the tensor '", tensor.name, "' is of ", tensor.dtype,
          ", which the format does not have");
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.sizes.size()));
    for (int d = tensor.sizes.size(); d-- > 0;)  // the innermost size comes first
      append_number(out, static_cast<uint64_t>(tensor.sizes[d]));
    append_number(out, type->id);
    append_number(out, position);
    position += (bytes_of_source(tensor) + alignment - 1) / alignment * alignment;
  }
  return out;
}

void pad(io::AtomicFile& file, uint64_t alignment) {
  file.write(std::string((alignment - file.position() % alignment) % alignment, '\0'));
}

}  // namespace

void write_gguf(const std::string& path, const Metadata& metadata,
                std::span<const TensorSource> tensors, const GgufWriteOptions& options) {
  called_as("write_gguf", [&] {
    const uint64_t alignment = alignment_of(metadata);
    std::string header;
    append_number(header, kGgufMagic);
    append_number(header, kGgufVersion);
    append_number(header, static_cast<uint64_t>(tensors.size()));
    append_number(header, static_cast<uint64_t>(metadata.size()));
    for (const auto& [key, value] : metadata) {
      check(key.size() <= kGgufMaxKeyBytes, "the key '", key, "' is too long");
      check(valid_utf8(key) == key, "a key is not UTF-8: '", key, "'");
      append_string(header, key);
      append_value(header, value);
    }
    header += tensor_infos(tensors, alignment);

    io::AtomicFile file(path);
    file.write(header);
    pad(file, alignment);
    uint64_t written = 0;
    for (const TensorSource& source : tensors) {
      const Tensor tensor = source.load().detach().cpu().contiguous();
      check(tensor.dtype() == source.dtype && tensor.sizes() == source.sizes, "the tensor '",
            source.name, "' was announced as ", source.dtype, " ", source.sizes, " and is ",
            tensor.dtype(), " ", tensor.sizes());
      file.write(io::contents(tensor));
      pad(file, alignment);
      written += tensor.nbytes();
      if (options.progress) options.progress(written);
    }
    file.commit();
  });
}

void write_gguf(const std::string& path, const Metadata& metadata, const StateDict& tensors,
                const GgufWriteOptions& options) {
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : tensors)
    sources.push_back({name, tensor.dtype(), tensor.sizes(), [tensor = tensor] { return tensor; }});
  write_gguf(path, metadata, sources, options);
}

}  // namespace tensora::llm
