// The part of the reader of pickles that knows names: what a checkpoint may ask for.

#include <algorithm>
#include <array>

#include "tensora/io/pickle.h"
#include "tensora/io/unpickler.h"

namespace tensora::io {

using namespace pickle;

namespace {

constexpr std::array<std::string_view, 12> kFunctions = {
    "collections.OrderedDict",
    "collections.Counter",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.device",
    "builtins.set",
    "builtins.bytearray",
    "_codecs.encode",
    "builtins.frozenset",
};

std::optional<DType> storage_dtype(std::string_view name) {
  for (const auto& [dtype, storage] : kStorageClasses)
    if (name == concat("torch.", storage)) return dtype;
  return {};
}

bool is_untyped_storage(std::string_view name) {
  return name == "torch.storage.UntypedStorage" || name == "torch.UntypedStorage";
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const DTypeInfo& info : dtype_info_table)
    if (info.block_numbers == 1 && name == concat("torch.", info.name)) return info.dtype;
  return {};
}

// Python writes bytes as a text of the same numbers.
std::string latin1(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x80) {
      out += text[i];
      continue;
    }
    check((byte & 0xfc) == 0xc0 && i + 1 < text.size(), "the pickle holds bytes that are none");
    out += static_cast<char>(((byte & 3) << 6) | (static_cast<uint8_t>(text[++i]) & 0x3f));
  }
  return out;
}

}  // namespace

bool Unpickler::step_call(uint8_t opcode) {
  const auto line = [&] {
    std::string out;
    for (char letter; (letter = static_cast<char>(reader_.read<uint8_t>())) != '\n';) out += letter;
    return out;
  };
  switch (opcode) {
    case kGlobal: {
      const std::string module = line();
      global(module, line());
      return true;
    }
    case kStackGlobal: {
      const Object *name = pop(), *module = pop();
      global(text(module, "the name of a module"), text(name, "the name of a class"));
      return true;
    }
    case kReduce:
    case kNewObj:
      call();
      return true;
    case kBuild:
      build();
      return true;
    case kBinPersId:
      persistent_storage();
      return true;
    default:
      return false;
  }
}

// A class of TorchScript, whose objects are attributes alone, or a mark of the type of a list.
bool Unpickler::names_attributes(const std::string& name) const {
  return source_ == Source::torchscript &&
         (name.starts_with("__torch__.") || name.starts_with("torch.jit._pickle."));
}

void Unpickler::global(const std::string& module, const std::string& name) {
  Object object;
  object.kind = Kind::global;
  object.text = concat(module == "__builtin__" ? "builtins" : module, ".", name);
  object.dtype = dtype_named(object.text);
  const bool known =
      object.dtype || storage_dtype(object.text) || is_untyped_storage(object.text) ||
      names_attributes(object.text) ||
      std::find(kFunctions.begin(), kFunctions.end(), object.text) != kFunctions.end();
  check(known, "the pickle asks for '", object.text,
        "', which is refused: only tensors, numbers, texts and containers of them are loaded, and "
        "nothing is ever called");
  push(std::move(object));
}

void Unpickler::call() {
  const Object* args = pop();
  const Object* function = pop();
  check(function->kind == Kind::global && args->kind == Kind::tuple,
        "the pickle is damaged: it calls something that is not a function");
  push(called(function->text, args->items));
}

// An OrderedDict may come with attributes (the version numbers of a module's state): not needed.
void Unpickler::build() {
  const Object* attributes = pop();
  Object* object = top();
  check(object->kind == Kind::dict,
        "the pickle sets the attributes of something that is not an OrderedDict");
  if (object->text.empty()) return;
  check(attributes->kind == Kind::dict, "the pickle is damaged: '", object->text,
        "' has no attributes");
  spend(sizeof(Object*) * attributes->items.size());
  object->items = attributes->items;
}

void Unpickler::persistent_storage() {
  const Object* id = pop();
  check(id->kind == Kind::tuple && (id->items.size() == 5 || id->items.size() == 6) &&
            text(id->items[0], "the kind of an external object") == "storage",
        "the pickle refers to an external object that is not a storage");
  // Before 1.6 there was a sixth: which part of another storage this is.
  check(id->items.size() == 5 || id->items[5]->kind == Kind::none,
        "a storage is a part of another one, which is not supported");
  const Object* type = id->items[1];
  check(type->kind == Kind::global && (storage_dtype(type->text) || is_untyped_storage(type->text)),
        "the type of a storage is not known");
  const std::string& key = text(id->items[2], "the key of a storage");
  const std::optional<DType> dtype = storage_dtype(type->text);
  const int64_t count = integer(id->items[4], "the size of a storage");
  auto found = storages_.find(key);
  if (found == storages_.end()) {
    Object storage;
    storage.kind = Kind::storage;
    storage.dtype = dtype;
    storage.integer = count;
    storage.tensor = load_storage_(key, dtype, count);
    found = storages_.emplace(key, std::move(storage)).first;
  }
  check(found->second.dtype == dtype && found->second.integer == count, "the storage '", key,
        "' is described in two ways");
  push(found->second);
}

Unpickler::Object Unpickler::called(const std::string& function, const Args& args) {
  const auto expect = [&](bool ok) {
    check(ok, "the pickle is damaged: '", function, "' has unexpected arguments");
  };
  if (function.starts_with("torch._utils._rebuild_tensor")) return rebuilt_tensor(function, args);
  Object result;
  if (names_attributes(function)) {
    if (function.starts_with("torch.jit.")) {
      expect(!args.empty());
      return *args[0];
    }
    expect(args.empty());
    result.kind = Kind::dict;
    result.text = function;
  } else if (function == "torch._utils._rebuild_parameter") {
    expect(args.size() == 3 && args[0]->kind == Kind::tensor && args[1]->kind == Kind::boolean);
    result.kind = Kind::tensor;
    result.tensor = args[0]->tensor.detach();
    if (args[1]->integer != 0) result.tensor.requires_grad_();
    parameters_.push_back(result.tensor);
  } else if (function == "collections.OrderedDict") {
    expect(args.empty() || (args.size() == 1 && args[0]->kind == Kind::list));
    result.kind = Kind::dict;
    if (!args.empty())
      for (const Object* pair : args[0]->items) {
        expect((pair->kind == Kind::list || pair->kind == Kind::tuple) && pair->items.size() == 2);
        result.items.insert(result.items.end(), pair->items.begin(), pair->items.end());
      }
  } else if (function == "collections.Counter") {  // the milestones of PyTorch's MultiStepLR
    expect(args.size() == 1 && args[0]->kind == Kind::dict);
    result.kind = Kind::dict;
    result.items = args[0]->items;
  } else if (function == "torch.Size" || function == "builtins.set" ||
             function == "builtins.frozenset") {
    expect(args.size() == 1 && (args[0]->kind == Kind::list || args[0]->kind == Kind::tuple));
    result.kind = function == "torch.Size" ? Kind::tuple : Kind::set;
    result.items = args[0]->items;
  } else if (function == "torch.device") {
    expect(args.size() == 1 || args.size() == 2);
    result.kind = Kind::text;
    result.text = text(args[0], "a device");
    if (args.size() == 2) result.text += concat(":", integer(args[1], "the number of a device"));
  } else if (function == "builtins.bytearray" || function == "_codecs.encode") {
    result.kind = Kind::text;
    if (!args.empty()) result.text = text(args[0], "an array of bytes");
    if (args.size() == 2) expect(text(args[1], "an encoding") == "latin1");
    if (function == "_codecs.encode") {
      expect(args.size() == 2);
      result.text = latin1(result.text);
    }
  } else {
    fail("the pickle calls '", function, "', which is not a function of tensors or containers");
  }
  spend(result.text.size() + sizeof(Value) * result.items.size());  // each call makes a copy
  return result;
}

Unpickler::Object Unpickler::rebuilt_tensor(const std::string& function, const Args& args) {
  // storage, offset, sizes, strides; from version 2 on requires_grad and hooks; in version 3 the
  // dtype.
  const bool with_dtype = function.ends_with("_v3"),
             bare = !function.ends_with("_v2") && !with_dtype;
  const size_t count = with_dtype ? 7 : bare ? 4 : 6;
  check(args.size() == count || args.size() == count + 1, "the pickle is damaged: '", function,
        "' has ", args.size(), " arguments");
  const Object* storage = args[0];
  check(storage->kind == Kind::storage, "the pickle is damaged: a tensor has no storage");
  const bool flagged = args.size() > count && !args[count]->items.empty();
  check(!flagged, "tensors with pending conjugation or negation are not supported");
  check(bare || args[4]->kind == Kind::boolean,
        "the pickle is damaged: requires_grad is not a boolean");
  std::optional<DType> dtype = storage->dtype;
  if (with_dtype) {
    check(!dtype && args[6]->kind == Kind::global && args[6]->dtype && args[6]->dtype != kBool,
          "the pickle is damaged: the dtype of a tensor is not known");
    dtype = args[6]->dtype;
  }
  check(dtype.has_value(), "the pickle is damaged: the dtype of a tensor is not known");

  const int64_t offset = integer(args[1], "the offset of a tensor");
  const Shape sizes = shape(args[2]), strides = shape(args[3]);
  check(sizes.size() == strides.size(), "a tensor has sizes ", sizes, " but strides ", strides);
  check(offset >= 0, "a tensor begins ", offset, " elements after its storage does");
  const int64_t extent = storage_extent(sizes, strides, offset, "a tensor of the file");
  const int64_t bytes =
      multiply_sizes(extent, static_cast<int64_t>(element_size(*dtype)), "a tensor of the file");
  check(bytes <= storage->tensor.numel(), "a tensor of sizes ", sizes, ", strides ", strides,
        " and offset ", offset, " reaches beyond its storage");
  Object result;
  result.kind = Kind::tensor;
  result.tensor = make_view(storage->tensor.impl().storage, sizes, strides, offset, *dtype);
  if (!bare && args[4]->integer != 0) result.tensor.requires_grad_();
  return result;
}

int64_t Unpickler::integer(const Object* object, std::string_view what) const {
  check(object->kind == Kind::integer, "the pickle is damaged: ", what, " is not an integer");
  return object->integer;
}

const std::string& Unpickler::text(const Object* object, std::string_view what) const {
  check(object->kind == Kind::text, "the pickle is damaged: ", what, " is not a text");
  return object->text;
}

Shape Unpickler::shape(const Object* object) const {
  check(object->kind == Kind::tuple, "the pickle is damaged: the shape of a tensor is not a tuple");
  Shape result;
  for (const Object* item : object->items) {
    result.push_back(integer(item, "the size of a tensor"));
    check(result.back() >= 0, "a tensor has a negative size or stride");
  }
  return result;
}

}  // namespace tensora::io
