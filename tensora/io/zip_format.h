#pragma once

#include <cstdint>

// The numbers of the zip format that reader and writer share.

namespace tensora::io::zip {

inline constexpr uint32_t kLocalHeader = 0x04034b50;
inline constexpr uint32_t kCentralHeader = 0x02014b50;
inline constexpr uint32_t kEnd = 0x06054b50;
inline constexpr uint32_t kEnd64 = 0x06064b50;
inline constexpr uint32_t kEnd64Locator = 0x07064b50;

inline constexpr uint64_t kLocalHeaderBytes = 30;
inline constexpr uint64_t kCentralHeaderBytes = 46;
inline constexpr uint64_t kEndBytes = 22;
inline constexpr uint64_t kEnd64Bytes = 56;
inline constexpr uint64_t kEnd64LocatorBytes = 20;

inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;
inline constexpr uint16_t kEncryptedFlag = 1;
inline constexpr uint16_t kUtf8Flag = 1 << 11;

/// In a 32-bit field: the value stands in the extra field of zip64.
inline constexpr uint32_t kIn64 = 0xffffffff;
inline constexpr uint16_t kZip64Extra = 1;
inline constexpr uint16_t kPaddingExtra = 0x4246;  // "FB", as PyTorch pads

}  // namespace tensora::io::zip
