#include "tensora/io/load.h"

#include <filesystem>

#include "tensora/io/mapped_file.h"
#include "tensora/io/npy.h"
#include "tensora/io/safetensors.h"
#include "tensora/io/zip_reader.h"
#include "tensora/ops.h"

namespace tensora::io {
namespace {

enum class Format { pytorch, npz, npy, safetensors };

Format format_of(const std::string& path) {
  return reading("load", path, [&] {
    const std::shared_ptr<MappedFile> file = MappedFile::open(path);
    const ConstBytes bytes = file->bytes();
    const auto starts_with = [&](std::string_view text) {
      return bytes.size() >= text.size() &&
             std::equal(text.begin(), text.end(), bytes.begin(),
                        [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
    };
    if (starts_with("\x93NUMPY")) return Format::npy;
    // Before the others: the length in front of the brace may begin as they do.
    if (bytes.size() > 8 && bytes[8] == '{') return Format::safetensors;
    if (starts_with("\x80")) return Format::pytorch;  // from before 1.6
    if (starts_with("PK")) {
      const ZipReader archive(file);
      for (const ZipEntry& entry : archive.entries())
        if (entry.name.ends_with("data.pkl")) return Format::pytorch;
      return Format::npz;
    }
    fail("it is none of safetensors, PyTorch's, npz and npy format");
  });
}

Tensor placed(const Tensor& tensor, const LoadOptions& options) {
  return options.copy && options.device.is_cpu() ? tensor.clone() : tensor.to(options.device);
}

Value placed(const StateDict& tensors, const LoadOptions& options) {
  Value result = Value::dict();
  for (const auto& [name, tensor] : tensors)
    result.to_dict().emplace_back(name, placed(tensor, options));
  return result;
}

}  // namespace

Value load(const std::string& path, const LoadOptions& options) {
  switch (format_of(path)) {
    case Format::pytorch:
      return load_pytorch(path, options);
    case Format::npz:
      return placed(load_npz(path), options);
    case Format::npy:
      return placed(load_npy(path), options);
    case Format::safetensors:
      break;
  }
  return placed(load_safetensors(path), options);
}

void save(const Value& value, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".pt" || ending == ".pth" || ending == ".ckpt" || ending == ".bin")
    return save_pytorch(value, path);
  if (ending == ".safetensors") return save_safetensors(value.to_state_dict(), path);
  if (ending == ".npz") return save_npz(value.to_state_dict(), path);
  check(ending == ".npy", "save: '", path,
        "' must end in .pt, .pth, .ckpt, .bin, .safetensors, .npz or .npy");
  save_npy(value.to_tensor(), path);
}

}  // namespace tensora::io
