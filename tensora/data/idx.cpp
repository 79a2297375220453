#include "tensora/data/idx.h"

#include <algorithm>
#include <array>

#include "tensora/data/byte_stream.h"
#include "tensora/io/mapped_file.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::data {
namespace {

DType dtype_of_code(uint8_t code) {
  switch (code) {
    case 0x08:
      return kUInt8;
    case 0x09:
      return kInt8;
    case 0x0b:
      return kInt16;
    case 0x0c:
      return kInt32;
    case 0x0d:
      return kFloat32;
    case 0x0e:
      return kFloat64;
    default:
      fail("it has elements of the unknown type ", static_cast<int>(code));
  }
}

void read_all(ByteStream& stream, std::span<uint8_t> to, std::string_view what) {
  const size_t count = stream.read(to);
  check(count == to.size(), "it is cut off: ", what, " should have ", to.size(), " bytes, ", count,
        " are there");
}

// Numbers are stored with their highest byte first.
void swap_bytes(std::span<uint8_t> bytes, size_t element) {
  if (element == 1) return;
  for (size_t i = 0; i < bytes.size(); i += element)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + element));
}

Shape read_sizes(ByteStream& stream, int dims) {
  Shape sizes;
  for (int i = 0; i < dims; ++i) {
    std::array<uint8_t, 4> bytes;
    read_all(stream, bytes, "the header");
    int64_t size = 0;
    for (const uint8_t byte : bytes) size = size << 8 | byte;
    sizes.push_back(size);
  }
  return sizes;
}

Tensor decode(std::span<const uint8_t> file) {
  ByteStream stream(file);
  std::array<uint8_t, 4> magic;
  read_all(stream, magic, "the header");
  check(magic[0] == 0 && magic[1] == 0 && magic[3] >= 1 && magic[3] <= kMaxDims,
        "it is not an IDX file: expected two bytes of 0, a type and 1 to ", kMaxDims, " dims, got ",
        static_cast<int>(magic[0]), " ", static_cast<int>(magic[1]), " ",
        static_cast<int>(magic[2]), " ", static_cast<int>(magic[3]));
  const DType dtype = dtype_of_code(magic[2]);
  const Shape sizes = read_sizes(stream, magic[3]);
  const uint64_t bytes = io::dense_bytes(sizes, dtype);
  // A lie is found before memory is allocated for it.
  check(bytes <= stream.most_bytes(), "its header promises a tensor of ", sizes, ", ", bytes,
        " bytes, which a file of ", file.size(), " bytes cannot hold");
  const Tensor result = empty(sizes, {.dtype = dtype});
  const std::span<uint8_t> data(static_cast<uint8_t*>(result.data_ptr()), bytes);
  read_all(stream, data, "the tensor");
  std::array<uint8_t, 1> more;
  check(stream.read(more) == 0, "it has more bytes than the tensor of ", sizes, " in its header");
  swap_bytes(data, element_size(dtype));
  return result;
}

}  // namespace

Tensor decode_idx(std::span<const uint8_t> file) {
  return called_as("decode_idx", [&] { return decode(file); });
}

Tensor read_idx(const std::string& path) {
  return io::reading("read_idx", path, [&] { return decode(io::MappedFile::open(path)->bytes()); });
}

}  // namespace tensora::data
