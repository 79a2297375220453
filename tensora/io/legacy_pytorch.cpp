// PyTorch's format from before 1.6, which `_use_new_zipfile_serialization=False` still writes: the
// pickles of a magic number, of a version, of a description of the machine, of the object and of
// the list of its storages' keys; then, for each key, the number of elements (8 bytes) and the
// elements.

#include <algorithm>
#include <array>
#include <unordered_map>

#include "tensora/io/pickle.h"
#include "tensora/io/pytorch_storage.h"
#include "tensora/io/unpickler.h"
#include "tensora/ops.h"

namespace tensora::io {
namespace {

constexpr std::array<uint8_t, 10> kMagic = {0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                            0x20, 0x6a, 0xa8, 0x50, 0x19};
constexpr int64_t kVersion = 1001;

class LegacyFile {
 public:
  LegacyFile(std::shared_ptr<MappedFile> file, const LoadOptions& options)
      : file_(std::move(file)), options_(options), reader_(file_->bytes()) {}

  Value load() {
    read_magic();
    check(next().to_int() == kVersion, "the version of its format is not known");
    const Value machine = next();
    const Value* const little =
        machine.is_dict() ? machine.find(std::string("little_endian")) : nullptr;
    check(little && little->is_bool(), "it does not describe the machine that wrote it");
    check(little->to_bool(), "it was written by a big-endian machine");
    // The storages come after the object, so it is read twice: first to learn where it ends.
    const size_t begin = reader_.position();
    next([this](const std::string& key, std::optional<DType> dtype, int64_t count) {
      return placeholder(key, dtype, count);
    });
    find_storages(next());
    Unpickler unpickler(
        ConstBytes(file_->bytes()).subspan(begin),
        [this](const std::string& key, std::optional<DType>, int64_t) { return storage(key); });
    Value value = unpickler.load();
    if (options_.parameters) *options_.parameters = unpickler.parameters();
    return value;
  }

 private:
  struct Place {
    std::optional<DType> dtype;
    int64_t count = 0;
    uint64_t begin = 0;  // in the file; 0: not found
    uint64_t bytes() const {
      return static_cast<uint64_t>(count) * (dtype ? element_size(*dtype) : 1);
    }
  };

  void read_magic() {
    constexpr auto is_magic = [](ConstBytes bytes) {
      return std::equal(kMagic.begin(), kMagic.end(), bytes.begin(), bytes.end());
    };
    reader_.take(2);  // the protocol
    auto opcode = reader_.read<uint8_t>();
    if (opcode == pickle::kFrame) {
      reader_.take(8);
      opcode = reader_.read<uint8_t>();
    }
    const bool found = opcode == pickle::kLong1 && reader_.read<uint8_t>() == kMagic.size() &&
                       is_magic(reader_.take(kMagic.size())) &&
                       reader_.read<uint8_t>() == pickle::kStop;
    check(found, "it is a bare pickle, which torch.save did not write and which is not loaded");
  }

  /// The object of the next pickle.
  Value next(const Unpickler::StorageLoader& load_storage = refuse_storage) {
    Unpickler unpickler(ConstBytes(file_->bytes()).subspan(reader_.position()), load_storage);
    Value value = unpickler.load();
    reader_.take(unpickler.position());
    return value;
  }
  static Tensor refuse_storage(const std::string&, std::optional<DType>, int64_t) {
    fail("its header refers to a tensor");
  }

  /// Memory that nothing is written to. All of it together is no more than the file has.
  Tensor placeholder(const std::string& key, std::optional<DType> dtype, int64_t count) {
    const auto width = static_cast<int64_t>(dtype ? element_size(*dtype) : 1);
    check(count >= 0, "the storage '", key, "' has ", count, " elements");
    const auto bytes = static_cast<uint64_t>(multiply_sizes(count, width, "storage"));
    check(bytes <= file_->bytes().size() - claimed_, "the storages have more bytes than the file");
    claimed_ += bytes;
    places_[key] = {dtype, count, 0};
    return empty({static_cast<int64_t>(bytes)}, {.dtype = kUInt8, .device = Device()});
  }

  void find_storages(const Value& keys) {
    for (const Value& key : keys.to_list()) {
      const auto found = places_.find(key.to_string());
      check(found != places_.end() && found->second.begin == 0, "the storage '", key.to_string(),
            "' belongs to no tensor, or is there twice");
      const auto count = reader_.read<int64_t>();
      check(count == found->second.count, "the storage '", key.to_string(), "' should have ",
            found->second.count, " elements, but has ", count);
      found->second.begin = reader_.position();
      reader_.take(found->second.bytes());
    }
    for (const auto& [key, place] : places_)
      check(place.begin > 0, "the storage '", key, "' is missing");
  }

  Tensor storage(const std::string& key) const {
    const Place& place = places_.at(key);
    return storage_tensor(key, {file_->bytes().subspan(place.begin, place.bytes()), file_},
                          place.dtype, place.count, options_);
  }

  std::shared_ptr<MappedFile> file_;
  LoadOptions options_;
  ByteReader reader_;
  std::unordered_map<std::string, Place> places_;
  uint64_t claimed_ = 0;
};

}  // namespace

Value load_legacy_pytorch(const std::shared_ptr<MappedFile>& file, const LoadOptions& options) {
  return LegacyFile(file, options).load();
}

}  // namespace tensora::io
