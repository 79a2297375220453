#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensora/io/byte_reader.h"
#include "tensora/io/state.h"

namespace tensora::io {

/// Reads a pickle that holds tensors, numbers, texts and containers of them, and nothing else. A
/// pickle is a program; this reads its instructions as a description of data. It calls nothing: the
/// functions that describe tensors are known by name, and every other name is refused.
class Unpickler {
 public:
  /// The storage of this key, as a one-dimensional uint8 tensor of the bytes of `count` elements.
  using StorageLoader =
      std::function<Tensor(const std::string& key, std::optional<DType> dtype, int64_t count)>;

  /// The modules of a TorchScript program are read as dicts of their attributes.
  enum class Source : uint8_t { checkpoint, torchscript };

  Unpickler(ConstBytes pickle, StorageLoader load_storage, Source source = Source::checkpoint);

  /// The object that the pickle describes. Tuples and sets become lists, dtypes and devices texts.
  Value load();
  /// How many bytes of the pickle were read.
  size_t position() const { return reader_.position(); }
  /// The tensors of the result that were an nn.Parameter.
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  enum class Kind {
    none,
    boolean,
    integer,
    number,
    text,
    tuple,
    list,
    set,
    dict,
    global,
    storage,
    tensor
  };
  // Objects live as long as the reader and point to each other freely: a pickle can describe cycles
  // and chains of any length.
  struct Object {
    Kind kind = Kind::none;
    int64_t integer = 0;  // or a boolean, or the position of a storage
    double number = 0;
    std::string text;                  // or the name of a global
    std::vector<const Object*> items;  // of a dict, keys and values by turns
    Tensor tensor;                     // or the bytes of a storage
    std::optional<DType> dtype;        // of a storage
  };
  using Args = std::vector<const Object*>;

  void step(uint8_t opcode);
  bool step_number(uint8_t opcode);
  bool step_text(uint8_t opcode);
  bool step_container(uint8_t opcode);
  bool step_stack(uint8_t opcode);
  bool step_call(uint8_t opcode);

  Object* push(Object object);
  void push_shared(Object& object) { stack_.push_back(&object); }
  Object* pop();
  Object* top();
  Args pop_to_mark();
  void remember(uint32_t index);
  void recall(uint32_t index);
  void set_items(const Args& items);
  void extend(Kind kind, const Args& items);

  void global(const std::string& module, const std::string& name);
  void call();
  void build();
  void persistent_storage();
  bool names_attributes(const std::string& name) const;
  Object called(const std::string& function, const Args& args);
  Object rebuilt_tensor(const std::string& function, const Args& args);

  int64_t integer(const Object* object, std::string_view what) const;
  const std::string& text(const Object* object, std::string_view what) const;
  Shape shape(const Object* object) const;
  Value converted(const Object* object, int depth);
  Value::Key key_of(const Object* object) const;
  void spend(size_t bytes);

  ByteReader reader_;
  StorageLoader load_storage_;
  Source source_;
  std::deque<Object> objects_;
  Object none_, true_, false_;  // which nothing changes
  std::vector<Tensor> parameters_;
  std::vector<Object*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, Object*> memo_;
  std::unordered_map<std::string, Object> storages_;
  size_t budget_;  // bytes of memory: a small pickle can describe a huge value
};

}  // namespace tensora::io
