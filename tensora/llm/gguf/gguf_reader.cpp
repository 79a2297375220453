#include "tensora/llm/gguf/gguf_reader.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "tensora/base/utf8.h"
#include "tensora/core/shape.h"
#include "tensora/llm/gguf/gguf_format.h"

namespace tensora::llm {
namespace {

using io::ByteReader;

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = decode_utf8(text);
    if (first.code == kInvalidUtf8) return false;
    text.remove_prefix(static_cast<size_t>(first.length));
  }
  return true;
}

// Walks over the header of a file that may be anything.
class Parser {
 public:
  explicit Parser(io::ConstBytes file) : file_(file), reader_(file) {}

  GgufHeader parse() {
    check_start();
    const auto tensors = reader_.read<uint64_t>(), keys = reader_.read<uint64_t>();
    check_count(keys, 8 + 1 + 4 + 1, "keys");
    check_count(tensors, 8 + 1 + 4 + 4 + 8, "tensors");
    for (uint64_t i = 0; i < keys; ++i) read_entry();
    check_count(tensors, 8 + 1 + 4 + 4 + 8, "tensors");
    const uint64_t alignment = read_alignment();
    for (uint64_t i = 0; i < tensors; ++i) header_.tensors.push_back(read_tensor(alignment));
    std::unordered_set<std::string_view> names;
    for (const GgufTensor& tensor : header_.tensors)
      check(names.insert(tensor.info.name).second, "the tensor '", tensor.info.name,
            "' is there twice");
    place_tensors(alignment);
    return std::move(header_);
  }

 private:
  void check_start() {
    const auto magic = reader_.read<uint32_t>();
    check(magic == kGgufMagic, "it is not a GGUF file: it does not begin with \"GGUF\"");
    header_.version = reader_.read<uint32_t>();
    check(header_.version <= 0xffff, "it is big-endian, which is not supported");
    check(header_.version == 2 || header_.version == 3, "GGUF version ", header_.version,
          " is not supported; expected 2 or 3");
  }

  // So many things cannot be in what is left of the file: said before any memory is taken.
  void check_count(uint64_t count, uint64_t least_bytes, std::string_view what) const {
    check(count <= reader_.left() / least_bytes, "it claims ", count, " ", what, ", but only ",
          reader_.left(), " bytes follow at byte ", reader_.position());
  }

  std::string read_string(std::string_view what) {
    const auto length = reader_.read<uint64_t>();
    check(length <= reader_.left(), what, " claims ", length, " bytes, but only ", reader_.left(),
          " follow at byte ", reader_.position());
    return reader_.text(length);
  }

  void read_entry() {
    const size_t position = reader_.position();
    const std::string key = read_string("a key");
    check(!key.empty() && key.size() <= kGgufMaxKeyBytes, "the key at byte ", position, " has ",
          key.size(), " bytes; expected 1 to ", kGgufMaxKeyBytes);
    check(is_utf8(key), "the key at byte ", position, " is not UTF-8");
    check(!header_.metadata.contains(key), "the key '", key, "' is there twice");
    try {
      header_.metadata.set(key, read_value());
    } catch (const Error& error) {
      fail("the key '", key, "' at byte ", position, ": ", error.what());
    }
  }

  MetadataValue read_value() {
    const auto id = reader_.read<uint32_t>();
    if (id != kGgufArrayType) return read_scalar(checked_type(id));
    const MetadataType type = checked_type(reader_.read<uint32_t>());
    const auto count = reader_.read<uint64_t>();
    check(count <= kGgufMaxElements, "an array of ", count, " elements; expected at most ",
          kGgufMaxElements);
    switch (type) {
      case MetadataType::uint8:
        return read_array<uint8_t, int64_t>(type, count);
      case MetadataType::int8:
        return read_array<int8_t, int64_t>(type, count);
      case MetadataType::uint16:
        return read_array<uint16_t, int64_t>(type, count);
      case MetadataType::int16:
        return read_array<int16_t, int64_t>(type, count);
      case MetadataType::uint32:
        return read_array<uint32_t, int64_t>(type, count);
      case MetadataType::int32:
        return read_array<int32_t, int64_t>(type, count);
      case MetadataType::uint64:
      case MetadataType::int64:
        return read_array<int64_t, int64_t>(type, count);
      case MetadataType::float32:
        return read_array<float, double>(type, count);
      case MetadataType::float64:
        return read_array<double, double>(type, count);
      case MetadataType::boolean:
        return read_array<uint8_t, int64_t>(type, count);
      case MetadataType::string:
        break;
    }
    check_count(count, 8, "strings");
    std::vector<std::string> values;
    for (uint64_t i = 0; i < count; ++i) values.push_back(read_string("a string"));
    return MetadataValue(std::move(values), type);
  }

  static MetadataType checked_type(uint32_t id) {
    check(id != kGgufArrayType, "arrays of arrays are not supported");
    check(id <= static_cast<uint32_t>(MetadataType::float64), "its type ", id, " is unknown");
    return static_cast<MetadataType>(id);
  }

  MetadataValue read_scalar(MetadataType type) {
    switch (type) {
      case MetadataType::uint8:
        return MetadataValue(int64_t{reader_.read<uint8_t>()}, type);
      case MetadataType::int8:
        return MetadataValue(int64_t{reader_.read<int8_t>()}, type);
      case MetadataType::uint16:
        return MetadataValue(int64_t{reader_.read<uint16_t>()}, type);
      case MetadataType::int16:
        return MetadataValue(int64_t{reader_.read<int16_t>()}, type);
      case MetadataType::uint32:
        return MetadataValue(int64_t{reader_.read<uint32_t>()}, type);
      case MetadataType::int32:
        return MetadataValue(int64_t{reader_.read<int32_t>()}, type);
      case MetadataType::uint64:
      case MetadataType::int64:
        return MetadataValue(reader_.read<int64_t>(), type);
      case MetadataType::float32:
        return MetadataValue(double{reader_.read<float>()}, type);
      case MetadataType::float64:
        return MetadataValue(reader_.read<double>(), type);
      case MetadataType::boolean: {
        const auto byte = reader_.read<uint8_t>();
        check(byte <= 1, "a bool is ", int{byte}, "; expected 0 or 1");
        return MetadataValue(byte == 1, type);
      }
      case MetadataType::string:
        break;
    }
    return MetadataValue(read_string("the string"), type);
  }

  template <class Stored, class Value>
  MetadataValue read_array(MetadataType type, uint64_t count) {
    check_count(count, sizeof(Stored), "elements");
    const io::ConstBytes bytes = reader_.take(count * sizeof(Stored));
    std::vector<Value> values(count);
    for (uint64_t i = 0; i < count; ++i) {
      Stored stored;
      std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
      values[i] = static_cast<Value>(stored);
    }
    return MetadataValue(std::move(values), type);
  }

  uint64_t read_alignment() const {
    const MetadataValue* value = header_.metadata.find("general.alignment");
    if (!value) return kGgufAlignment;
    check(value->type() == MetadataType::uint32 && !value->is_array(),
          "'general.alignment': expected uint32, got ", value->kind());
    const auto alignment = static_cast<uint64_t>(std::get<int64_t>(value->contents()));
    check(std::has_single_bit(alignment) && alignment >= 8,
          "'general.alignment': expected a power "
          "of two from 8, got ",
          alignment);
    return alignment;
  }

  GgufTensor read_tensor(uint64_t alignment) {
    const size_t position = reader_.position();
    GgufTensor tensor;
    tensor.info.name = read_string("the name of a tensor");
    const std::string& name = tensor.info.name;
    check(!name.empty() && name.size() <= kGgufMaxKeyBytes && is_utf8(name),
          "the name of the tensor at byte ", position, " is empty, too long or not UTF-8");
    const auto dims = reader_.read<uint32_t>();
    check(dims <= static_cast<uint32_t>(kGgufMaxDims), "the tensor '", name, "' has ", dims,
          " dims; expected at most ", kGgufMaxDims);
    uint64_t sizes[kGgufMaxDims] = {};
    for (uint32_t d = 0; d < dims; ++d) sizes[d] = reader_.read<uint64_t>();
    const auto id = reader_.read<uint32_t>();
    const GgufType* type = gguf_type(id);
    check(type != nullptr, "the tensor '", name, "' has the unknown type ", id);
    check(type->dtype.has_value(), "the tensor '", name, "' has the type ", type->name,
          ", which is not supported");
    tensor.info.dtype = *type->dtype;
    // The innermost size comes first in the file, and last here.
    for (uint32_t d = dims; d-- > 0;) {
      check(sizes[d] <= static_cast<uint64_t>(INT64_MAX), "the tensor '", name, "' has a size of ",
            sizes[d]);
      tensor.info.sizes.push_back(static_cast<int64_t>(sizes[d]));
    }
    tensor.info.bytes = bytes_of_tensor(tensor.info);
    tensor.begin = reader_.read<uint64_t>();
    check(tensor.begin % alignment == 0, "the tensor '", name, "' begins at byte ", tensor.begin,
          " of the data, which is no multiple of ", alignment);
    return tensor;
  }

  // Against the size of the file, which bounds all products.
  uint64_t bytes_of_tensor(const TensorInfo& info) const {
    const DTypeInfo& dtype = dtype_info(info.dtype);
    const int64_t row = info.sizes.empty() ? 1 : info.sizes.back();
    check(row % dtype.block_numbers == 0, "the tensor '", info.name, "' of type ", dtype.name,
          " has rows of ", row, " numbers; expected a multiple of ", int{dtype.block_numbers});
    uint64_t bytes = dtype.block_bytes;
    bool empty = false;
    for (int64_t size : info.sizes) empty = empty || size == 0;
    if (empty) return 0;
    for (int d = 0; d < info.sizes.size(); ++d) {
      const bool last = d + 1 == info.sizes.size();
      const auto count = static_cast<uint64_t>(info.sizes[d]) / (last ? dtype.block_numbers : 1);
      check(count <= file_.size() / bytes, "the tensor '", info.name, "' of shape ", info.sizes,
            " is larger than the file of ", file_.size(), " bytes");
      bytes *= count;
    }
    return bytes;
  }

  // Offsets count from the first aligned byte behind the header.
  void place_tensors(uint64_t alignment) {
    const uint64_t header = reader_.position();
    check(alignment <= file_.size() || header_.tensors.empty(), "'general.alignment' of ",
          alignment, " exceeds the file");
    const uint64_t start = (header + alignment - 1) / alignment * alignment;
    std::vector<const GgufTensor*> order;
    for (GgufTensor& tensor : header_.tensors) {
      if (tensor.info.bytes == 0) {
        tensor.begin = 0;
        continue;
      }
      const uint64_t room = file_.size() - std::min<uint64_t>(start, file_.size());
      check(tensor.begin <= room && tensor.info.bytes <= room - tensor.begin, "the tensor '",
            tensor.info.name, "' needs ", tensor.info.bytes, " bytes at ", tensor.begin,
            " of the data, which has ", room, ": the file is cut off or damaged");
      tensor.begin += start;
      order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < order.size(); ++i)
      check(order[i - 1]->begin + order[i - 1]->info.bytes <= order[i]->begin, "the tensors '",
            order[i - 1]->info.name, "' and '", order[i]->info.name, "' overlap");
  }

  io::ConstBytes file_;
  ByteReader reader_;
  GgufHeader header_;
};

}  // namespace

GgufHeader parse_gguf(io::ConstBytes file) {
  check(!file.empty(), "the file is empty");
  return Parser(file).parse();
}

}  // namespace tensora::llm
