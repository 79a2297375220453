#pragma once

// Internal header: the choices of grid_sample, by name.

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tensora::resample {

enum class GridMode : uint8_t { bilinear, nearest, bicubic };
enum class GridPadding : uint8_t { zeros, border, reflection };

constexpr std::array<std::string_view, 3> names_of(std::type_identity<GridMode>) {
  return {"bilinear", "nearest", "bicubic"};
}
constexpr std::array<std::string_view, 3> names_of(std::type_identity<GridPadding>) {
  return {"zeros", "border", "reflection"};
}

}  // namespace tensora::resample
