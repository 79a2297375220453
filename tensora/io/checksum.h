#pragma once

#include "tensora/io/byte_reader.h"

namespace tensora::io {

/// The CRC-32 of zip and gzip; `start` is the checksum of what came before.
uint32_t crc32(ConstBytes bytes, uint32_t start = 0);

}  // namespace tensora::io
