#pragma once

#include <cstddef>
#include <cstdint>

namespace tensora {

/// Random bytes of the system that nobody can guess. A word takes 0.2 microseconds; of
/// std::random_device, which asks the processor, a hundred times that on some.
void fill_with_entropy(void* to, size_t bytes);
uint64_t entropy_word();

}  // namespace tensora
