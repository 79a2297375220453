#pragma once

// Internal header: what the factorisations' status numbers mean.

#include <cstdint>
#include <span>
#include <string_view>

namespace tensora {

/// Throws the error of `function` ("linalg.inv") for the first matrix whose status is not 0, naming
/// the element of the batch where there is one.
void check_infos(std::string_view function, std::span<const int32_t> infos, bool batched);

}  // namespace tensora
