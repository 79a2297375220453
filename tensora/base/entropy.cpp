#include "tensora/base/entropy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tensora/base/check.h"

namespace tensora {

void fill_with_entropy(void* to, size_t bytes) {
  constexpr size_t kMost = 256;  // of one call
  for (auto* at = static_cast<unsigned char*>(to); bytes > 0;) {
    const size_t count = std::min(bytes, kMost);
    check(getentropy(at, count) == 0, "the system has no random numbers: ", std::strerror(errno));
    at += count;
    bytes -= count;
  }
}

uint64_t entropy_word() {
  uint64_t word = 0;
  fill_with_entropy(&word, sizeof(word));
  return word;
}

}  // namespace tensora
