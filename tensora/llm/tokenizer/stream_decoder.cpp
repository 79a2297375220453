#include "tensora/llm/tokenizer/stream_decoder.h"

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"

namespace tensora::llm {
namespace {

// How many bytes at the end could become a character with what follows; less than four.
size_t torn(std::string_view text) {
  for (size_t count = 1; count <= 3 && count <= text.size(); ++count) {
    const std::string_view end = text.substr(text.size() - count);
    const auto first = static_cast<uint8_t>(end[0]);
    if ((first & 0xC0) == 0x80) continue;
    if (first < 0xC2 || first > 0xF4) return 0;
    // Tried with the smallest and the largest continuation: either may be the one that is allowed.
    for (const char filler : {'\x80', '\xBF'}) {
      const CodePoint filled = decode_utf8(std::string(end) + std::string(4 - count, filler));
      if (filled.code != kInvalidUtf8 && static_cast<size_t>(filled.length) > count) return count;
    }
    return 0;
  }
  return 0;
}

}  // namespace

StreamDecoder::StreamDecoder(TokenizerPtr tokenizer, const StreamOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  check(tokenizer_ != nullptr, "StreamDecoder: the tokenizer must not be null");
  strip_ = options_.at_start && tokenizer_->strips_first_space();
}

std::string StreamDecoder::push(Token token) {
  std::string_view bytes = tokenizer_->bytes_of(token, {.special = options_.special});
  if (strip_ && !bytes.empty()) {
    if (bytes.front() == ' ') bytes.remove_prefix(1);
    strip_ = false;
  }
  waiting_ += bytes;
  const size_t rest = torn(waiting_);
  std::string out = valid_utf8(std::string_view(waiting_).substr(0, waiting_.size() - rest));
  waiting_.erase(0, waiting_.size() - rest);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = valid_utf8(waiting_);
  waiting_.clear();
  strip_ = options_.at_start && tokenizer_->strips_first_space();
  return out;
}

}  // namespace tensora::llm
