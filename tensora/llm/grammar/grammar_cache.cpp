#include "tensora/llm/grammar/grammar_cache.h"

#include <chrono>
#include <list>
#include <mutex>
#include <vector>

#include "tensora/llm/grammar/grammar_automaton.h"
#include "tensora/llm/grammar/json_schema.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {
namespace {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// An automaton may grow to some 20 MB.
constexpr size_t kMostEntries = 24;

class GrammarCache {
 public:
  static GrammarCache& shared() {
    static GrammarCache cache;
    return cache;
  }

  GrammarMatcher matcher(const std::string& source, bool is_schema, const TokenizerPtr& tokenizer) {
    {
      const std::lock_guard lock(mutex_);
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->is_schema != is_schema || entry->source != source ||
            entry->tokenizer.lock() != tokenizer)
          continue;
        if (entry->automaton->is_full()) {
          entries_.erase(entry);
          break;
        }
        entries_.splice(entries_.begin(), entries_, entry);
        ++stats_.hits;
        return GrammarMatcher(entry->automaton, tokenizer);
      }
    }
    const auto started = std::chrono::steady_clock::now();
    GrammarMatcher compiled(Grammar::parse(is_schema ? json_schema_to_grammar(source) : source),
                            tokenizer);
    std::vector<float> logits(static_cast<size_t>(tokenizer->vocab_size()));
    compiled.mask(logits);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;

    const std::lock_guard lock(mutex_);
    ++stats_.misses;
    stats_.compile_seconds += taken.count();
    entries_.remove_if([](const Entry& entry) { return entry.tokenizer.expired(); });
    if (entries_.size() >= kMostEntries) entries_.pop_back();
    entries_.push_front({source, is_schema, tokenizer, compiled.automaton()});
    return compiled;
  }

  GrammarCacheStats stats() {
    const std::lock_guard lock(mutex_);
    stats_.entries = static_cast<int64_t>(entries_.size());
    return stats_;
  }

 private:
  struct Entry {
    std::string source;
    bool is_schema;
    std::weak_ptr<const Tokenizer> tokenizer;  // goes with its model
    std::shared_ptr<GrammarAutomaton> automaton;
  };

  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
  GrammarCacheStats stats_;
};

}  // namespace

GrammarMatcher cached_matcher(const std::string& grammar, const TokenizerPtr& tokenizer) {
  return GrammarCache::shared().matcher(grammar, false, tokenizer);
}

GrammarMatcher cached_schema_matcher(const std::string& schema, const TokenizerPtr& tokenizer) {
  return GrammarCache::shared().matcher(schema, true, tokenizer);
}

GrammarCacheStats grammar_cache_stats() { return GrammarCache::shared().stats(); }

}  // namespace tensora::llm
