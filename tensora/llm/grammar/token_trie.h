#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tensora::llm {

class Tokenizer;

/// The bytes of a vocabulary's tokens as a tree, in the order of a walk through it: the children of
/// a node follow it, and `skip` leads past them. Control tokens are not in it.
class TokenTrie {
 public:
  struct Node {
    uint8_t byte;
    uint16_t depth;        // from 1 on: the number of bytes up to here
    int32_t skip;          // the first node that is not below this one
    int32_t tokens_begin;  // tokens that end here: tokens()[tokens_begin .. next node's]
  };

  explicit TokenTrie(const Tokenizer& tokenizer);
  /// One per tokenizer, made when it is first asked for.
  static std::shared_ptr<const TokenTrie> of(const std::shared_ptr<const Tokenizer>& tokenizer);

  std::span<const Node> nodes() const { return nodes_; }  // the last one is only an end
  std::span<const int32_t> tokens() const { return tokens_; }
  size_t depth() const { return depth_; }
  int64_t vocab_size() const { return vocab_size_; }
  /// The tokens that end a generation.
  std::span<const int32_t> ends() const { return ends_; }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> ends_;
  size_t depth_ = 0;
  int64_t vocab_size_ = 0;
};

}  // namespace tensora::llm
