#include "tensora/llm/paged_cache.h"

#include <sys/mman.h>

#include <memory>

#include "tensora/llm/model_config.h"
#include "tensora/ops.h"

namespace tensora::llm {

namespace {

void check_blocks(const ModelConfig& config, int64_t block_size, DType dtype) {
  check(block_size > 0 && block_size <= 1 << 20, "PagedCache: the size of a block must be in [1, ",
        1 << 20, "], got ", block_size);
  const bool known = dtype == kFloat32 || dtype == kFloat16 || dtype == kBFloat16 ||
                     dtype == kFloat8E4M3 || dtype == kQ8_0;
  check(known, "PagedCache: expected float32, float16, bfloat16, float8_e4m3fn or q8_0, got ",
        dtype);
  const int64_t numbers = dtype_info(dtype).block_numbers;
  check(config.head_dim % numbers == 0, "PagedCache: ", dtype, " has blocks of ", numbers,
        " numbers, which heads of ", config.head_dim, " do not consist of");
}

// On the CPU, pages that take no memory until they are written to: a cache is made for the longest
// text, and most texts are short.
Tensor zero_bytes(int64_t bytes, Device device) {
  if (!device.is_cpu()) return zeros({bytes}, {.dtype = kUInt8, .device = device});
  const auto size = static_cast<size_t>(bytes);
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(pages != MAP_FAILED, "PagedCache: the system has no ", bytes, " bytes of memory");
  std::shared_ptr<void> owner(pages, [size](void* address) { munmap(address, size); });
  return make_view(Storage::wrap(pages, size, device, std::move(owner)), {bytes}, {1}, 0, kUInt8);
}

}  // namespace

PagedCache PagedCache::make(const ModelConfig& config, int64_t num_blocks, int64_t block_size,
                            DType dtype, Device device) {
  check_blocks(config, block_size, dtype);
  check(num_blocks > 0 && num_blocks <= (int64_t{1} << 40) / block_size,
        "PagedCache: the number of blocks must be positive and address fewer than 2^40 positions, "
        "got ",
        num_blocks, " blocks of ", block_size);
  const int64_t bytes_of_head = bytes_of(dtype, config.head_dim) * block_size;
  std::vector<int64_t> heads_by_rank = config.kv_heads_by_rank;
  if (heads_by_rank.empty()) heads_by_rank.push_back(config.kv_heads);
  PagedCache cache;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    for (std::vector<Tensor>* part : {&cache.keys, &cache.values})
      for (const int64_t heads : heads_by_rank) {
        // Zeros in every dtype are zero bytes.
        const Tensor memory = zero_bytes(num_blocks * heads * bytes_of_head, device);
        const Shape sizes{num_blocks, heads, block_size, config.head_dim};
        part->push_back(
            make_view(memory.impl().storage, sizes, contiguous_strides(sizes), 0, dtype));
      }
  return cache;
}

PagedCache PagedCache::part(size_t rank, size_t ranks) const {
  PagedCache own;
  for (size_t i = rank; i < keys.size(); i += ranks) {
    own.keys.push_back(keys[i]);
    own.values.push_back(values[i]);
  }
  return own;
}

int64_t PagedCache::num_blocks() const { return keys.empty() ? 0 : keys[0].size(0); }
int64_t PagedCache::block_size() const { return keys.empty() ? 0 : keys[0].size(2); }

int64_t PagedCache::bytes() const {
  int64_t sum = 0;
  for (const std::vector<Tensor>* part : {&keys, &values})
    for (const Tensor& tensor : *part) sum += static_cast<int64_t>(tensor.nbytes());
  return sum;
}

int64_t PagedCache::bytes_per_block(const ModelConfig& config, int64_t block_size, DType dtype) {
  check_blocks(config, block_size, dtype);
  return config.cache_bytes_per_token(dtype) * block_size;
}

}  // namespace tensora::llm
