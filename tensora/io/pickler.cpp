#include "tensora/io/pickler.h"

#include <algorithm>

#include "tensora/io/byte_reader.h"
#include "tensora/io/pickle.h"

namespace tensora::io {

using namespace pickle;

namespace {

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
    const uint8_t first = byte(i);
    const auto ones = static_cast<size_t>(std::countl_one(first));
    const size_t length = std::max<size_t>(ones, 1);
    if (ones == 1 || ones > 4 || i + length > text.size()) return false;
    uint32_t code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3fu);
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += length;
  }
  return true;
}

std::string_view storage_class(DType dtype) {
  for (const auto& [known, name] : kStorageClasses)
    if (known == dtype) return name;
  return {};
}

}  // namespace

Pickler::Pickler(std::span<const Tensor> parameters) {
  for (const Tensor& parameter : parameters) parameters_.insert(parameter.impl_ptr().get());
}

std::string Pickler::dump(const Value& value) {
  out_ = {static_cast<char>(kProto), '\2'};
  add(value, 0);
  out_ += static_cast<char>(kStop);
  return std::move(out_);
}

void Pickler::add(const Value& value, int depth) {
  check(depth <= kMostDepth, "lists and dicts are nested deeper than ", kMostDepth);
  if (value.is_none()) {
    out_ += static_cast<char>(kNone);
  } else if (value.is_bool()) {
    out_ += static_cast<char>(value.to_bool() ? kNewTrue : kNewFalse);
  } else if (value.is_int()) {
    add_integer(value.to_int());
  } else if (value.is_double()) {
    out_ += static_cast<char>(kBinFloat);
    append_number(out_, __builtin_bswap64(std::bit_cast<uint64_t>(value.to_double())));
  } else if (value.is_string()) {
    add_text(value.to_string());
  } else if (value.is_tensor()) {
    add_tensor(value.to_tensor());
  } else if (value.is_list()) {
    out_ += static_cast<char>(kEmptyList);
    out_ += static_cast<char>(kMark);
    for (const Value& item : value.to_list()) add(item, depth + 1);
    out_ += static_cast<char>(kAppends);
  } else {
    out_ += static_cast<char>(kEmptyDict);
    out_ += static_cast<char>(kMark);
    for (const auto& [key, entry] : value.to_dict()) {
      if (key.index() == 0)
        add_integer(std::get<int64_t>(key));
      else
        add_text(std::get<std::string>(key));
      add(entry, depth + 1);
    }
    out_ += static_cast<char>(kSetItems);
  }
}

void Pickler::add_integer(int64_t value) {
  if (value >= 0 && value < 256) {
    out_ += static_cast<char>(kBinInt1);
    append_number(out_, static_cast<uint8_t>(value));
  } else if (value == static_cast<int32_t>(value)) {
    out_ += static_cast<char>(kBinInt);
    append_number(out_, static_cast<int32_t>(value));
  } else {
    out_ += static_cast<char>(kLong1);
    out_ += '\x08';
    append_number(out_, value);
  }
}

void Pickler::add_text(std::string_view text) {
  check(is_utf8(text), "a text is not valid UTF-8; a uint8 tensor can hold any bytes");
  check(text.size() <= UINT32_MAX, "a text has ", text.size(), " bytes");
  out_ += static_cast<char>(kBinUnicode);
  append_number(out_, static_cast<uint32_t>(text.size()));
  out_ += text;
}

void Pickler::add_global(std::string_view module, std::string_view name) {
  out_ += static_cast<char>(kGlobal);
  out_ += concat(module, "\n", name, "\n");
}

void Pickler::add_tuple(const Shape& values) {
  out_ += static_cast<char>(kMark);
  for (int64_t value : values) add_integer(value);
  out_ += static_cast<char>(kTuple);
}

void Pickler::add_storage(const Tensor& tensor) {
  const Storage& storage = tensor.storage();  // which has its memory now
  const std::string_view type = storage_class(tensor.dtype());
  // Storages over the same memory are one; those without memory differ.
  const void* memory = storage.bytes() > 0 ? storage.data() : &storage;
  const auto [found, added] = keys_.emplace(std::pair(memory, storage.bytes()), storages_.size());
  if (added) {
    const size_t width = type.empty() ? 1 : element_size(tensor.dtype());
    storages_.push_back({tensor, static_cast<int64_t>(storage.bytes() / width)});
  }
  const StorageUse& use = storages_[found->second];
  check(storage_class(use.tensor.dtype()) == type, "a ", tensor.dtype(), " tensor and a ",
        use.tensor.dtype(), " tensor share memory; PyTorch's format cannot express that");
  out_ += static_cast<char>(kMark);
  add_text("storage");
  if (type.empty())
    add_global("torch.storage", "UntypedStorage");
  else
    add_global("torch", type);
  add_text(std::to_string(found->second));
  add_text("cpu");
  add_integer(use.count);
  out_ += static_cast<char>(kTuple);
  out_ += static_cast<char>(kBinPersId);
}

void Pickler::add_tensor(const Tensor& tensor) {
  check(tensor.defined(), "a tensor is undefined");
  check(!tensor.is_meta(), "a meta tensor has no contents");
  check(!tensor.is_quantized(), "a ", tensor.dtype(),
        " tensor cannot be saved in PyTorch's format");
  const auto [found, added] =
      tensors_.emplace(tensor.impl_ptr().get(), static_cast<uint32_t>(tensors_.size()));
  if (!added) {
    out_ += static_cast<char>(kLongBinGet);
    append_number(out_, found->second);
    return;
  }
  if (parameters_.contains(tensor.impl_ptr().get())) {
    add_global("torch._utils", "_rebuild_parameter");
    out_ += static_cast<char>(kMark);
    add_data(tensor, false);
    out_ += static_cast<char>(tensor.requires_grad() ? kNewTrue : kNewFalse);
    add_no_hooks();
    out_ += static_cast<char>(kTuple);
    out_ += static_cast<char>(kReduce);
  } else {
    add_data(tensor, tensor.requires_grad());
  }
  out_ += static_cast<char>(kLongBinPut);
  append_number(out_, found->second);
}

void Pickler::add_no_hooks() {
  add_global("collections", "OrderedDict");
  out_ += static_cast<char>(kEmptyTuple);
  out_ += static_cast<char>(kReduce);
}

void Pickler::add_data(const Tensor& tensor, bool requires_grad) {
  const bool untyped = storage_class(tensor.dtype()).empty();
  add_global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out_ += static_cast<char>(kMark);
  add_storage(tensor);
  add_integer(tensor.storage_offset());
  add_tuple(tensor.sizes());
  add_tuple(tensor.strides());
  out_ += static_cast<char>(requires_grad ? kNewTrue : kNewFalse);
  add_no_hooks();
  if (untyped) add_global("torch", name(tensor.dtype()));
  out_ += static_cast<char>(kTuple);
  out_ += static_cast<char>(kReduce);
}

}  // namespace tensora::io
