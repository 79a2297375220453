#pragma once

#include <string>

namespace tensora::cli {

/// A temporary folder of this process alone. It is gone with all that is in it when this object
/// ends.
class PrivateFolder {
 public:
  /// The folder's name begins with `prefix`.
  explicit PrivateFolder(const std::string& prefix);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tensora::cli
