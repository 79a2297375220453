#include "tensora/io/pytorch.h"

#include "tensora/io/mapped_file.h"
#include "tensora/io/pickle.h"
#include "tensora/io/pickler.h"
#include "tensora/io/pytorch_storage.h"
#include "tensora/io/unpickler.h"
#include "tensora/io/zip_format.h"
#include "tensora/io/zip_reader.h"
#include "tensora/io/zip_writer.h"
#include "tensora/ops.h"

namespace tensora::io {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";
constexpr std::string_view kArchive = "archive";

// Before 1.6 PyTorch wrote pickles that were not in an archive.
bool is_pickle(ConstBytes file) { return !file.empty() && file[0] == pickle::kProto; }

// The parameters and buffers of a TorchScript program: its attributes that are tensors, by path.
void add_tensors(Value::Dict& tensors, const Value& value, const std::string& path) {
  if (value.is_tensor()) tensors.emplace_back(path, value.to_tensor().detach());
  if (!value.is_dict()) return;
  for (const auto& [key, item] : value.to_dict())
    if (const auto* name = std::get_if<std::string>(&key))
      add_tensors(tensors, item, path.empty() ? *name : concat(path, ".", *name));
}

class Checkpoint {
 public:
  Checkpoint(std::shared_ptr<MappedFile> file, const LoadOptions& options)
      : archive_(std::move(file)), options_(options) {
    for (const ZipEntry& entry : archive_.entries()) {
      const size_t slash = entry.name.find('/');
      if (slash != std::string::npos && entry.name.substr(slash) == kPickleName)
        folder_ = entry.name.substr(0, slash);
    }
    check(!folder_.empty(), "it is an archive without data.pkl, so torch.save did not write it");
    is_program_ = archive_.find(folder_ + "/constants.pkl") != nullptr;
    if (const ZipEntry* order = archive_.find(folder_ + "/byteorder")) {
      const Bytes text = stored(*order).bytes;
      check(std::string(text.begin(), text.end()) == "little",
            "it was written by a big-endian machine");
    }
  }

  Value load() {
    const OwnedBytes pickle = stored(entry("data.pkl"));
    Unpickler unpickler(
        pickle.bytes,
        [this](const std::string& key, std::optional<DType> dtype, int64_t count) {
          return storage_tensor(key, stored(entry("data/" + key)), dtype, count, options_);
        },
        is_program_ ? Unpickler::Source::torchscript : Unpickler::Source::checkpoint);
    Value value = unpickler.load();
    if (options_.parameters) *options_.parameters = unpickler.parameters();
    if (!is_program_) return value;
    Value::Dict tensors;
    add_tensors(tensors, value, {});
    return tensors;
  }

 private:
  const ZipEntry& entry(const std::string& name) const {
    const ZipEntry* found = archive_.find(concat(folder_, "/", name));
    check(found, "the archive has no '", name, "'");
    return *found;
  }

  // PyTorch compresses nothing; so no file can ask for more memory than it has bytes.
  OwnedBytes stored(const ZipEntry& entry) const {
    check(entry.method == zip::kStored, "the entry '", entry.name, "' is compressed");
    return archive_.read(entry, options_.verify);
  }

  ZipReader archive_;
  LoadOptions options_;
  std::string folder_;
  bool is_program_ =
      false;  // TorchScript's; what LibTorch's torch::save writes is such a file, too
};

// All bytes of a storage, on the CPU.
Tensor storage_bytes(const Pickler::StorageUse& use) {
  const IntrusivePtr<Storage>& storage = use.tensor.impl().storage;
  const auto bytes = static_cast<int64_t>(storage->bytes());
  return make_view(storage, {bytes}, {1}, 0, kUInt8).cpu();
}

}  // namespace

Tensor storage_tensor(const std::string& key, const OwnedBytes& data, std::optional<DType> dtype,
                      int64_t count, const LoadOptions& options) {
  const auto width = static_cast<int64_t>(dtype ? element_size(*dtype) : 1);
  check(count >= 0 &&
            multiply_sizes(count, width, "storage") <= static_cast<int64_t>(data.bytes.size()),
        "the storage '", key, "' should have ", count, " elements of ", width, " bytes, but has ",
        data.bytes.size(), " bytes");
  const DType unit = dtype.value_or(kUInt8);
  const Tensor elements =
      tensor_over(data.bytes.first(static_cast<size_t>(count * width)), {count}, unit, data.owner);
  // As bytes: what the elements mean is the tensors' business.
  const Tensor bytes = make_view(elements.impl().storage, {count * width}, {1}, 0, kUInt8);
  return options.copy && options.device.is_cpu() ? bytes.clone() : bytes.to(options.device);
}

Value load_pytorch(const std::string& path, const LoadOptions& options) {
  return reading("load_pytorch", path, [&] {
    const std::shared_ptr<MappedFile> file = MappedFile::open(path);
    if (is_pickle(file->bytes())) return load_legacy_pytorch(file, options);
    return Checkpoint(file, options).load();
  });
}

void save_pytorch(const Value& value, const std::string& path, std::span<const Tensor> parameters) {
  called_as("save_pytorch", [&] {
    Pickler pickler(parameters);
    const std::string pickle = pickler.dump(value);
    AtomicFile file(path);
    ZipWriter archive(file);
    const auto store = [&](std::string_view name, ConstBytes contents) {
      archive.store(concat(kArchive, "/", name), contents);
    };
    store("data.pkl", bytes_of_text(pickle));
    store(".format_version", bytes_of_text("1"));
    store(".storage_alignment", bytes_of_text("64"));
    store("byteorder", bytes_of_text("little"));
    for (size_t i = 0; i < pickler.storages().size(); ++i) {
      const Pickler::StorageUse& use = pickler.storages()[i];
      store(concat("data/", i), contents(storage_bytes(use)));
    }
    store("version", bytes_of_text("3\n"));
    archive.finish();
    file.commit();
  });
}

}  // namespace tensora::io
