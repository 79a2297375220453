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
#include "tests/temporary_folder.h"

namespace tensora::testing {

inline std::string golden(const std::string& name) {
  return std::string(TENSORA_TESTS) + "/io/goldens/" + name;
}

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
