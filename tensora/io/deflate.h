#pragma once

#include <vector>

#include "tensora/io/byte_reader.h"

namespace tensora::io {

/// What a raw deflate stream unpacks to, which must be exactly `size` bytes. Memory grows with what
/// is really there, not with what `size` claims.
std::vector<uint8_t> inflate(ConstBytes packed, uint64_t size);
/// The bytes as a raw deflate stream.
std::vector<uint8_t> deflate(ConstBytes bytes);

}  // namespace tensora::io
