#pragma once

#include <string>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

struct StreamOptions {
  bool special = false;   // control tokens are written
  bool at_start = false;  // nothing precedes the first token: the blank before it is dropped, as
                          // `decode` does
};

/// Turns tokens into text while they arrive. What comes out is valid UTF-8 at every step: a
/// character whose bytes come in several tokens waits for the last of them, and bytes that cannot
/// become a character are written as U+FFFD. All parts, joined, are valid_utf8 of `decode`.
class StreamDecoder {
 public:
  explicit StreamDecoder(TokenizerPtr tokenizer, const StreamOptions& options = {});

  /// The text that is complete now; often empty for a moment.
  std::string push(Token token);
  /// What is left when nothing more comes. The decoder can be used anew.
  std::string finish();

 private:
  TokenizerPtr tokenizer_;
  StreamOptions options_;
  bool strip_;
  std::string waiting_;
};

}  // namespace tensora::llm
