#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensora/data/dataset.h"

namespace tensora::data {

/// How a token file stores a token.
enum class TokenWidth : uint8_t { uint16 = 2, uint32 = 4 };

struct TokenFileOptions {
  TokenWidth width = TokenWidth::uint16;
  int64_t header_bytes = 0;  // to be skipped
};

/// A long sequence of token numbers that is not copied: a file in memory, or numbers of the
/// program. Copies of it share the numbers.
class Tokens {
 public:
  /// A file of little-endian numbers, nothing else but a header; the system reads a page of it
  /// when it is first used.
  static Tokens open(const std::string& path, TokenFileOptions options = {});
  explicit Tokens(std::vector<uint16_t> tokens);
  explicit Tokens(std::vector<uint32_t> tokens);

  int64_t size() const { return size_; }
  int64_t operator[](int64_t index) const;
  /// Those from `begin` up to `end`.
  Tokens slice(int64_t begin, int64_t end) const;
  /// Writes `count` tokens from `begin` on to `to`. The range must be inside.
  void copy(int64_t begin, int64_t count, int64_t* to) const;

 private:
  Tokens(const void* data, int64_t size, TokenWidth width, std::shared_ptr<const void> owner)
      : data_(data), size_(size), width_(width), owner_(std::move(owner)) {}

  const void* data_ = nullptr;
  int64_t size_ = 0;
  TokenWidth width_;
  std::shared_ptr<const void> owner_;
};

/// Writes a token file. Throws where a token does not fit into the width.
void write_tokens(const std::string& path, std::span<const int64_t> tokens,
                  TokenWidth width = TokenWidth::uint16);

struct TokenDatasetOptions {
  int64_t block_size = 1024;
  /// How far the block of an example begins behind that of the one before; 0: block_size, so that
  /// every token is predicted once. 1 gives a block at every place, for a random sampler.
  int64_t stride = 0;
};

/// Blocks of a token sequence for training a language model. An example is {input, target}, int64
/// [block_size] each; the target is the input moved by one token. A batch is converted straight
/// from the file into its tensors.
class TokenDataset final : public Dataset {
 public:
  explicit TokenDataset(Tokens tokens, TokenDatasetOptions options = {});
  Example get(int64_t index) const override;
  int64_t size() const override { return count_; }
  std::optional<Batch> get_batch(std::span<const int64_t> indices,
                                 NewTensor new_tensor) const override;

 private:
  Tokens tokens_;
  int64_t block_size_, stride_, count_;
};

}  // namespace tensora::data
