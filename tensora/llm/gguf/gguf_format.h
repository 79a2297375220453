#pragma once

// The numbers of GGUF files, versions 2 and 3, which share a layout.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::llm {

inline constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF"
inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint32_t kGgufArrayType = 9;
inline constexpr uint64_t kGgufAlignment = 32;  // of tensors, unless `general.alignment` says more
inline constexpr int kGgufMaxDims = 4;
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;
inline constexpr uint64_t kGgufMaxElements = uint64_t{1} << 27;  // of an array
inline constexpr uint64_t kGgufMaxNameBytes = 63;                // what other readers accept

/// A type of tensors: its number in the files, and what it is here if it can be read.
struct GgufType {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;
};
/// Null for numbers that are unknown or retired.
const GgufType* gguf_type(uint32_t id);
/// Null for dtypes that the format does not have.
const GgufType* gguf_type(DType dtype);

}  // namespace tensora::llm
