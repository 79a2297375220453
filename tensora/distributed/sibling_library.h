#pragma once

#include <string>
#include <string_view>

namespace tensora::distributed {

/// A library of Tensora's that is opened when it is needed: the file beside this library, or
/// `given`.
class SiblingLibrary {
 public:
  /// Throws with `advice` where it cannot be opened.
  SiblingLibrary(const std::string& file, std::string_view given, std::string_view advice);
  /// Throws where there is no such function.
  void* function(const char* name) const;

 private:
  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace tensora::distributed
