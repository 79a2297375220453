#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tensora/llm/grammar/grammar_matcher.h"

namespace tensora::llm {

struct GrammarCacheStats {
  int64_t hits = 0, misses = 0;
  int64_t entries = 0;
  double compile_seconds = 0;  // of all misses together
};

/// A matcher of a grammar (GBNF), or of a JSON schema, at the start of a text. The last few
/// grammars are kept compiled, each with the masks that its matchers have found, so that a request
/// with the same grammar costs a copy. Compiling finds the first mask too: a grammar whose masks
/// take too long is refused here, not while a model generates. May be called from several threads.
GrammarMatcher cached_matcher(const std::string& grammar,
                              const std::shared_ptr<const Tokenizer>& tokenizer);
GrammarMatcher cached_schema_matcher(const std::string& schema,
                                     const std::shared_ptr<const Tokenizer>& tokenizer);

GrammarCacheStats grammar_cache_stats();

}  // namespace tensora::llm
