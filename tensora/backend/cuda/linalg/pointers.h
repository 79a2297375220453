#pragma once

#include <cstdint>
#include <string_view>

namespace tensora::cuda {

/// pointers[i] = base + i * step, in the memory of the device; `step` in bytes.
void fill_pointers(std::string_view op, int device, void* pointers, char* base, int64_t step,
                   int64_t count);

}  // namespace tensora::cuda
