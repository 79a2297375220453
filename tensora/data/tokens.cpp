#include "tensora/data/tokens.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensora/base/thread_pool.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::data {
namespace {

constexpr int64_t kTokensPerTask = 32 * 1024;

template <class Number>
void widen(const void* from, int64_t begin, int64_t count, int64_t* to) {
  // A header may leave the numbers at an odd address.
  const auto* const bytes = static_cast<const char*>(from) + begin * int64_t{sizeof(Number)};
  for (int64_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, bytes + i * int64_t{sizeof(Number)}, sizeof number);
    to[i] = static_cast<int64_t>(number);
  }
}

template <class Number>
std::string pack(std::span<const int64_t> tokens) {
  std::string bytes(tokens.size() * sizeof(Number), '\0');
  for (size_t i = 0; i < tokens.size(); ++i) {
    check(tokens[i] >= 0 && tokens[i] <= std::numeric_limits<Number>::max(), "write_tokens: token ",
          i, " is ", tokens[i], ", expected 0 to ", std::numeric_limits<Number>::max());
    const auto number = static_cast<Number>(tokens[i]);
    std::memcpy(bytes.data() + i * sizeof number, &number, sizeof number);
  }
  return bytes;
}

}  // namespace

// ---- Tokens
// --------------------------------------------------------------------------------------

Tokens Tokens::open(const std::string& path, TokenFileOptions options) {
  return io::reading("Tokens", path, [&] {
    const auto file = io::MappedFile::open(path);
    const auto bytes = static_cast<int64_t>(file->bytes().size());
    const auto width = static_cast<int64_t>(options.width);
    check(options.header_bytes >= 0 && options.header_bytes <= bytes, "expected a header of ",
          options.header_bytes, " bytes, got a file of ", bytes);
    const int64_t rest = bytes - options.header_bytes;
    check(rest % width == 0, "expected tokens of ", width, " bytes each, got ", rest, " bytes");
    return Tokens(file->bytes().data() + options.header_bytes, rest / width, options.width, file);
  });
}

Tokens::Tokens(std::vector<uint16_t> tokens) : width_(TokenWidth::uint16) {
  const auto shared = std::make_shared<const std::vector<uint16_t>>(std::move(tokens));
  *this = Tokens(shared->data(), static_cast<int64_t>(shared->size()), width_, shared);
}

Tokens::Tokens(std::vector<uint32_t> tokens) : width_(TokenWidth::uint32) {
  const auto shared = std::make_shared<const std::vector<uint32_t>>(std::move(tokens));
  *this = Tokens(shared->data(), static_cast<int64_t>(shared->size()), width_, shared);
}

int64_t Tokens::operator[](int64_t index) const {
  check(index >= 0 && index < size_, "Tokens: index ", index, " is out of range for ", size_,
        " tokens");
  int64_t token = 0;
  copy(index, 1, &token);
  return token;
}

Tokens Tokens::slice(int64_t begin, int64_t end) const {
  check(begin >= 0 && begin <= end && end <= size_, "Tokens: the part from ", begin, " to ", end,
        " is not within ", size_, " tokens");
  return {static_cast<const char*>(data_) + begin * static_cast<int64_t>(width_), end - begin,
          width_, owner_};
}

void Tokens::copy(int64_t begin, int64_t count, int64_t* to) const {
  if (width_ == TokenWidth::uint16)
    widen<uint16_t>(data_, begin, count, to);
  else
    widen<uint32_t>(data_, begin, count, to);
}

void write_tokens(const std::string& path, std::span<const int64_t> tokens, TokenWidth width) {
  io::AtomicFile file(path);
  file.write(width == TokenWidth::uint16 ? pack<uint16_t>(tokens) : pack<uint32_t>(tokens));
  file.commit();
}

// ---- TokenDataset
// --------------------------------------------------------------------------------

TokenDataset::TokenDataset(Tokens tokens, TokenDatasetOptions options)
    : tokens_(std::move(tokens)),
      block_size_(options.block_size),
      stride_(options.stride == 0 ? options.block_size : options.stride) {
  check(block_size_ > 0, "TokenDataset: expected a block_size above 0, got ", block_size_);
  check(stride_ > 0, "TokenDataset: expected a stride of at least 0, got ", options.stride);
  check(tokens_.size() > block_size_, "TokenDataset: the text of ", tokens_.size(),
        " tokens is too short for a block_size of ", block_size_, ", which needs ",
        add_sizes(block_size_, 1, "TokenDataset"));
  count_ = (tokens_.size() - 1 - block_size_) / stride_ + 1;
}

Example TokenDataset::get(int64_t index) const {
  check(index >= 0 && index < count_, "TokenDataset: index ", index, " is out of range for ",
        count_, " blocks");
  const Tensor input = empty({block_size_}, {.dtype = kInt64});
  const Tensor target = empty({block_size_}, {.dtype = kInt64});
  tokens_.copy(index * stride_, block_size_, input.data_ptr<int64_t>());
  tokens_.copy(index * stride_ + 1, block_size_, target.data_ptr<int64_t>());
  return {input, target};
}

std::optional<Batch> TokenDataset::get_batch(std::span<const int64_t> indices,
                                             NewTensor new_tensor) const {
  const Shape sizes{static_cast<int64_t>(indices.size()), block_size_};
  const Tensor input = new_tensor(sizes, kInt64), target = new_tensor(sizes, kInt64);
  auto* const inputs = input.data_ptr<int64_t>();
  auto* const targets = target.data_ptr<int64_t>();
  parallel_for(sizes[0], std::max<int64_t>(1, kTokensPerTask / block_size_),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = indices[static_cast<size_t>(i)] * stride_;
                   tokens_.copy(first, block_size_, inputs + i * block_size_);
                   tokens_.copy(first + 1, block_size_, targets + i * block_size_);
                 }
               });
  return Batch{input, target};
}

}  // namespace tensora::data
