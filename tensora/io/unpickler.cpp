#include "tensora/io/unpickler.h"

#include <algorithm>

#include "tensora/io/pickle.h"
#include "tensora/io/unpack_limit.h"

namespace tensora::io {

using namespace pickle;

namespace {

// An instruction of one byte becomes an object of over a hundred and a Value of some forty; an
// object that is used several times is copied each time.
constexpr size_t kBytesPerByte = 256;
constexpr size_t kBytesAtLeast = 1 << 20;
constexpr size_t kMemoBytes = 64;  // of an entry of the memo, about

}  // namespace

Unpickler::Unpickler(ConstBytes pickle, StorageLoader load_storage, Source source)
    : reader_(pickle),
      load_storage_(std::move(load_storage)),
      source_(source),
      budget_(
          std::min(kBytesAtLeast + kBytesPerByte * pickle.size(), unpack_limit(pickle.size()))) {
  true_.kind = false_.kind = Kind::boolean;
  true_.integer = 1;
}

Value Unpickler::load() {
  check(reader_.left() >= 2 && reader_.read<uint8_t>() == kProto,
        "the pickle does not begin with a protocol");
  const int protocol = reader_.read<uint8_t>();
  check(protocol >= 2 && protocol <= 5, "pickles of protocol ", protocol,
        " are not supported; 2 to 5 are");
  for (;;) {
    const auto opcode = reader_.read<uint8_t>();
    if (opcode == kStop) return converted(pop(), 0);
    step(opcode);
  }
}

void Unpickler::step(uint8_t opcode) {
  const bool known = step_number(opcode) || step_text(opcode) || step_container(opcode) ||
                     step_stack(opcode) || step_call(opcode);
  check(known, "the pickle has the instruction ", static_cast<int>(opcode), " at ",
        reader_.position() - 1, ", which checkpoints do not need");
}

// ---- the stack

Unpickler::Object* Unpickler::push(Object object) {
  spend(sizeof(Object) + object.text.size() + sizeof(Object*) * object.items.size());
  stack_.push_back(&objects_.emplace_back(std::move(object)));
  return stack_.back();
}

Unpickler::Object* Unpickler::top() {
  check(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
        "the pickle is damaged: it takes more than there is");
  return stack_.back();
}

Unpickler::Object* Unpickler::pop() {
  Object* object = top();
  stack_.pop_back();
  return object;
}

Unpickler::Args Unpickler::pop_to_mark() {
  check(!marks_.empty(), "the pickle is damaged: there is no mark");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  Args items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void Unpickler::remember(uint32_t index) {
  spend(kMemoBytes);
  memo_[index] = top();
}

void Unpickler::recall(uint32_t index) {
  const auto found = memo_.find(index);
  check(found != memo_.end(), "the pickle is damaged: nothing is remembered as ", index);
  stack_.push_back(found->second);
}

bool Unpickler::step_stack(uint8_t opcode) {
  switch (opcode) {
    case kMark:
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      // Python's own reader takes a mark if there is nothing above it.
      if (!marks_.empty() && stack_.size() == marks_.back())
        marks_.pop_back();
      else
        pop();
      return true;
    case kPopMark:
      pop_to_mark();
      return true;
    case kDuplicate:
      stack_.push_back(top());
      return true;
    case kBinGet:
      recall(reader_.read<uint8_t>());
      return true;
    case kLongBinGet:
      recall(reader_.read<uint32_t>());
      return true;
    case kBinPut:
      remember(reader_.read<uint8_t>());
      return true;
    case kLongBinPut:
      remember(reader_.read<uint32_t>());
      return true;
    case kMemoize:
      remember(static_cast<uint32_t>(memo_.size()));
      return true;
    case kFrame:
      check(reader_.read<uint64_t>() <= reader_.left(),
            "the pickle is damaged: a frame is cut off");
      return true;
    default:
      return false;
  }
}

// ---- numbers and texts

bool Unpickler::step_number(uint8_t opcode) {
  const auto push_integer = [&](int64_t value) {
    push({.kind = Kind::integer,
          .integer = value,
          .text = {},
          .items = {},
          .tensor = {},
          .dtype = {}});
    return true;
  };
  const auto push_long = [&](uint64_t bytes) {
    const ConstBytes digits = reader_.take(bytes);
    check(bytes <= 8, "the pickle holds an integer of ", bytes, " bytes; 8 are supported");
    uint64_t value = bytes > 0 && (digits.back() & 0x80) ? ~uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), bytes);
    return push_integer(static_cast<int64_t>(value));
  };
  switch (opcode) {
    case kNone:
      push_shared(none_);
      return true;
    case kNewTrue:
      push_shared(true_);
      return true;
    case kNewFalse:
      push_shared(false_);
      return true;
    case kBinInt:
      return push_integer(reader_.read<int32_t>());
    case kBinInt1:
      return push_integer(reader_.read<uint8_t>());
    case kBinInt2:
      return push_integer(reader_.read<uint16_t>());
    case kLong1:
      return push_long(reader_.read<uint8_t>());
    case kLong4:
      return push_long(reader_.read<uint32_t>());
    case kBinFloat: {
      Object object;
      object.kind = Kind::number;
      object.number = std::bit_cast<double>(__builtin_bswap64(reader_.read<uint64_t>()));
      push(std::move(object));
      return true;
    }
    default:
      return false;
  }
}

bool Unpickler::step_text(uint8_t opcode) {
  uint64_t bytes = 0;
  switch (opcode) {
    case kShortBinString:
    case kShortBinBytes:
    case kShortBinUnicode:
      bytes = reader_.read<uint8_t>();
      break;
    case kBinString:
    case kBinBytes:
    case kBinUnicode:
      bytes = reader_.read<uint32_t>();
      break;
    case kBinBytes8:
    case kBinUnicode8:
    case kByteArray8:
      bytes = reader_.read<uint64_t>();
      break;
    default:
      return false;
  }
  Object object;
  object.kind = Kind::text;
  object.text = reader_.text(bytes);
  push(std::move(object));
  return true;
}

// ---- containers

void Unpickler::set_items(const Args& items) {
  Object* dict = top();
  check(dict->kind == Kind::dict && items.size() % 2 == 0,
        "the pickle is damaged: it sets entries of something that is not a dict");
  spend(sizeof(Object*) * items.size());
  dict->items.insert(dict->items.end(), items.begin(), items.end());
}

void Unpickler::extend(Kind kind, const Args& items) {
  Object* list = top();
  check(list->kind == kind, "the pickle is damaged: it appends to something that is not a list");
  spend(sizeof(Object*) * items.size());
  list->items.insert(list->items.end(), items.begin(), items.end());
}

bool Unpickler::step_container(uint8_t opcode) {
  const auto push_items = [&](Kind kind, Args items) {
    Object object;
    object.kind = kind;
    object.items = std::move(items);
    push(std::move(object));
    return true;
  };
  const auto last = [&](size_t count) {
    Args items(count);
    while (count > 0) items[--count] = pop();
    return items;
  };
  switch (opcode) {
    case kEmptyList:
      return push_items(Kind::list, {});
    case kEmptyTuple:
      return push_items(Kind::tuple, {});
    case kEmptyDict:
      return push_items(Kind::dict, {});
    case kEmptySet:
      return push_items(Kind::set, {});
    case kList:
      return push_items(Kind::list, pop_to_mark());
    case kTuple:
      return push_items(Kind::tuple, pop_to_mark());
    case kFrozenSet:
      return push_items(Kind::set, pop_to_mark());
    case kTuple1:
    case kTuple2:
    case kTuple3:
      return push_items(Kind::tuple, last(size_t{1} + opcode - kTuple1));
    case kDict: {
      const Args items = pop_to_mark();
      push_items(Kind::dict, {});
      set_items(items);
      return true;
    }
    case kAppend: {
      const Args item = last(1);
      extend(Kind::list, item);
      return true;
    }
    case kAppends: {
      const Args items = pop_to_mark();
      extend(Kind::list, items);
      return true;
    }
    case kAddItems: {
      const Args items = pop_to_mark();
      extend(Kind::set, items);
      return true;
    }
    case kSetItem: {
      const Args items = last(2);
      set_items(items);
      return true;
    }
    case kSetItems: {
      const Args items = pop_to_mark();
      set_items(items);
      return true;
    }
    default:
      return false;
  }
}

// ---- the result

void Unpickler::spend(size_t bytes) {
  check(bytes <= budget_,
        "the pickle describes far more than it contains. If you trust it, raise "
        "TENSORA_UNPACK_LIMIT");
  budget_ -= bytes;
}

Value::Key Unpickler::key_of(const Object* object) const {
  if (object->kind == Kind::integer || object->kind == Kind::boolean) return object->integer;
  check(object->kind == Kind::text, "a key of a dict is neither a text nor an integer");
  return object->text;
}

Value Unpickler::converted(const Object* object, int depth) {
  check(depth <= kMostDepth, "lists and dicts are nested deeper than ", kMostDepth);
  spend(sizeof(Value) + object->text.size());
  switch (object->kind) {
    case Kind::none:
      return {};
    case Kind::boolean:
      return object->integer != 0;
    case Kind::integer:
      return object->integer;
    case Kind::number:
      return object->number;
    case Kind::text:
    case Kind::global:  // only those that stand for a value get here
      check(object->kind == Kind::text || object->dtype, "the pickle contains '", object->text,
            "' itself instead of a value");
      return object->text;
    case Kind::tensor:
      return object->tensor;
    case Kind::storage:
      fail("the pickle contains a storage outside a tensor");
    case Kind::tuple:
    case Kind::list:
    case Kind::set: {
      Value::List list;
      list.reserve(object->items.size());
      for (const Object* item : object->items) list.push_back(converted(item, depth + 1));
      return list;
    }
    case Kind::dict:
      break;
  }
  Value::Dict dict;
  std::unordered_map<Value::Key, size_t> places;
  for (size_t i = 0; i < object->items.size(); i += 2) {
    const Value::Key key = key_of(object->items[i]);
    spend(sizeof(Value) + 2 * object->items[i]->text.size());
    Value value = converted(object->items[i + 1], depth + 1);
    // As in Python, a later entry of the same key replaces the value in its place.
    const auto [place, added] = places.emplace(key, dict.size());
    if (added)
      dict.emplace_back(key, std::move(value));
    else
      dict[place->second].second = std::move(value);
  }
  return dict;
}

}  // namespace tensora::io
