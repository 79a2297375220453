#include "tensora/io/unpack_limit.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/base/settings.h"

namespace tensora::io {
namespace {

constexpr const char* kSetting = "TENSORA_UNPACK_LIMIT";
constexpr uint64_t kFactor = 64, kLeast = uint64_t{512} << 20;

}  // namespace

uint64_t unpack_limit(uint64_t packed_bytes) {
  static const uint64_t least = bytes_setting(kSetting, kLeast, kLeast);
  const uint64_t most = UINT64_MAX / kFactor;
  return std::max(least, kFactor * std::min(packed_bytes, most));
}

void check_unpacked(std::string_view what, uint64_t bytes, uint64_t packed_bytes) {
  check(bytes <= unpack_limit(packed_bytes), what, " would take ", bytes, " bytes of memory, from ",
        packed_bytes, " in the file; at most ", unpack_limit(packed_bytes),
        " are allowed. If you trust it, raise ", kSetting);
}

}  // namespace tensora::io
