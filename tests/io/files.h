#pragma once

#include <unistd.h>
#include <system_error>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../helpers.h"
#include "tensora/io.h"

namespace tensora::testing {

inline std::string golden(const std::string& name) {
  return std::string(TENSORA_TESTS) + "/io/goldens/" + name;
}

/// A folder of the test's own that vanishes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            concat("tensora-test-", static_cast<int>(getpid()), "-", count++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ / name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, std::string_view contents) {
  std::filesystem::remove(path);  // some file systems write a file that is truncated out at once
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

/// Same dtype, sizes and bytes.
inline ::testing::AssertionResult identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes())
    return ::testing::AssertionFailure()
           << concat(a.dtype(), " ", a.sizes(), " and ", b.dtype(), " ", b.sizes());
  const Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  if (x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << x.to_string() << " and " << y.to_string();
}

/// 0, 1, 2, … of a dtype.
inline Tensor counting(const Shape& sizes, DType dtype) {
  return arange(sizes.numel()).view(sizes).to(dtype);
}

inline std::vector<DType> element_dtypes() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : dtype_info_table)
    if (info.block_numbers == 1) dtypes.push_back(info.dtype);
  return dtypes;
}

}  // namespace tensora::testing
