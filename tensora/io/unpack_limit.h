#pragma once

#include <cstdint>
#include <string_view>

namespace tensora::io {

/// How many bytes a file of this size may take in memory once it is unpacked: 64 times its size, or
/// what TENSORA_UNPACK_LIMIT says (512 MiB unless it is set), whichever is more.
uint64_t unpack_limit(uint64_t packed_bytes);

/// Throws if `what`, such as "the archive", would take more than that.
void check_unpacked(std::string_view what, uint64_t bytes, uint64_t packed_bytes);

}  // namespace tensora::io
