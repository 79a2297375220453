#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/serve/api_error.h"

namespace tensora::serve {

/// Objects keep the order of their names: a schema's properties are written in it.
using Json = nlohmann::ordered_json;

/// A request's body. Throws ApiError 400 unless it is JSON in UTF-8, at most 100 levels deep, of at
/// most 4 million values and 50,000 lists and objects, without a name given twice in an object or
/// some 10,000 names in one, and an object.
Json parse_body(std::string_view body);

/// An object whose fields are read one by one; whatever is wrong with a field throws an ApiError
/// that names its path. A field that is null counts as absent. What nobody asked for is known
/// afterwards, so that nothing is ignored without being told.
class Fields {
 public:
  /// `path` is where the object stands: "tools[0].function"; empty: it is the body.
  explicit Fields(const Json& object, std::string path = {});
  Fields(Fields&&) noexcept = default;
  Fields& operator=(Fields&&) noexcept = default;
  /// One that was inside another leaves there what nobody has read.
  ~Fields();
  /// An object inside this one.
  Fields below(const Json& object, std::string path);

  bool has(const std::string& name) const;
  /// The field itself, or null if it is absent; it counts as read.
  const Json* find(const std::string& name);
  /// As find, but it must be there.
  const Json& at(const std::string& name);

  std::optional<bool> boolean(const std::string& name);
  /// A whole number from `least` to `most`; 3.0 is one.
  std::optional<int64_t> integer(const std::string& name,
                                 int64_t least = std::numeric_limits<int64_t>::min(),
                                 int64_t most = std::numeric_limits<int64_t>::max());
  std::optional<double> number(const std::string& name, double least, double most);
  std::optional<std::string> text(const std::string& name);
  /// A string of at most so many bytes that must be there.
  std::string required_text(const std::string& name);
  /// One of some strings.
  std::optional<std::string> choice(const std::string& name,
                                    std::initializer_list<std::string_view> allowed);
  /// An object, as fields of its own.
  std::optional<Fields> object(const std::string& name);
  /// A list with at most so many elements, or null.
  const Json* list(const std::string& name, size_t most);

  /// Counts as read although it has no effect here; it is not reported.
  void accept(std::initializer_list<std::string_view> names);
  /// Paths that nobody has read, in their order; then the first ones inside of objects that have
  /// been read.
  std::vector<std::string> unread() const;

  const std::string& path() const { return path_; }
  /// The path of a field: "tools[0].function.name".
  std::string path_of(const std::string& name) const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;

 private:
  std::vector<std::string> own_unread() const;

  const Json* object_;
  std::string path_;
  std::vector<std::string> read_;
  std::shared_ptr<std::vector<std::string>> unread_below_ = nullptr;  // of the body
  bool is_below_ = false;
};

/// "a string", "a list": what a value is, for messages.
std::string_view kind_of(const Json& value);

}  // namespace tensora::serve
