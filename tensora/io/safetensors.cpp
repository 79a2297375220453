#include "tensora/io/safetensors.h"

#include <algorithm>

#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/io/safetensors_header.h"

namespace tensora::io {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the format's own library

struct Parts {
  SafetensorsHeader header;
  Bytes data;
};

Parts take_apart(Bytes file) {
  ByteReader reader(file);
  const auto header_bytes = reader.read<uint64_t>();
  check(header_bytes <= kMostHeaderBytes, "the header would have ", header_bytes,
        " bytes; at most ", kMostHeaderBytes, " are allowed");
  const std::string text = reader.text(header_bytes);
  const Bytes data = file.subspan(reader.position());
  return {parse_safetensors_header(text, data.size()), data};
}

}  // namespace

StateDict load_safetensors(const std::string& path) {
  return reading("load_safetensors", path, [&] {
    const std::shared_ptr<MappedFile> file = MappedFile::open(path);
    const Parts parts = take_apart(file->bytes());
    StateDict tensors;
    for (const TensorEntry& entry : parts.header.tensors)
      tensors.insert(entry.name,
                     tensor_over(parts.data.subspan(entry.begin, entry.end - entry.begin),
                                 entry.sizes, entry.dtype, file));
    return tensors;
  });
}

Metadata safetensors_metadata(const std::string& path) {
  return reading("safetensors_metadata", path,
                 [&] { return take_apart(MappedFile::open(path)->bytes()).header.metadata; });
}

void save_safetensors(const StateDict& tensors, const std::string& path, const Metadata& metadata) {
  called_as("save_safetensors", [&] {
    SafetensorsHeader header{.tensors = {}, .metadata = metadata};
    std::vector<size_t> order;  // in the file: large elements first, so that each is aligned
    for (const auto& [name, tensor] : tensors) {
      check(tensor.defined(), "'", name, "' is an undefined tensor");
      check(!safetensors_name(tensor.dtype()).empty(), "'", name, "' is a ", tensor.dtype(),
            " tensor, which this format cannot hold");
      order.push_back(order.size());
      header.tensors.push_back({.name = name, .dtype = tensor.dtype(), .sizes = tensor.sizes()});
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return element_size(header.tensors[a].dtype) > element_size(header.tensors[b].dtype);
    });
    uint64_t position = 0;
    for (size_t i : order) {
      TensorEntry& entry = header.tensors[i];
      entry.begin = position;
      entry.end = position += dense_bytes(entry.sizes, entry.dtype);
    }
    std::string text = print_safetensors_header(header);
    text.append((8 - text.size() % 8) % 8, ' ');
    check(text.size() <= kMostHeaderBytes, "the header would have ", text.size(),
          " bytes; at most ", kMostHeaderBytes, " are allowed");

    AtomicFile file(path);
    std::string length;
    append_number(length, static_cast<uint64_t>(text.size()));
    file.write(length);
    file.write(text);
    for (size_t i : order) {
      const auto entry = tensors.begin() + static_cast<std::ptrdiff_t>(i);
      file.write(contents(writable_form(entry->second, entry->first)));
    }
    file.commit();
  });
}

}  // namespace tensora::io
