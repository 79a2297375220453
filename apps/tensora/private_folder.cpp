#include "private_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tensora/base/check.h"

namespace tensora::cli {

PrivateFolder::PrivateFolder(const std::string& prefix)
    : path_((std::filesystem::temp_directory_path() / (prefix + "XXXXXX")).string()) {
  check(mkdtemp(path_.data()) != nullptr, "a temporary folder cannot be made: ", path_);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tensora::cli
