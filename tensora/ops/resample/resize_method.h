#pragma once

// Internal header: the ways of interpolate along one dim, by name.

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tensora::resample {

enum class Method : uint8_t { nearest, nearest_exact, linear, cubic };

constexpr std::array<std::string_view, 4> names_of(std::type_identity<Method>) {
  return {"nearest", "nearest-exact", "linear", "cubic"};
}

}  // namespace tensora::resample
