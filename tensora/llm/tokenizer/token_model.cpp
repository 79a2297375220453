#include "tensora/llm/tokenizer/token_model.h"

namespace tensora::llm {

void encode_unknown(const Vocabulary& vocabulary, const Fallback& fallback, std::string_view text,
                    size_t start, std::vector<Token>& out) {
  if (fallback.bytes) {
    const size_t before = out.size();
    for (const char byte : text) out.push_back(vocabulary.byte(static_cast<uint8_t>(byte)));
    bool all = true;
    for (size_t i = before; i < out.size(); ++i) all = all && out[i] >= 0;
    if (all) return;
    out.resize(before);
  }
  if (fallback.unknown < 0) return;
  if (fallback.fuse && out.size() > start && out.back() == fallback.unknown) return;
  out.push_back(fallback.unknown);
}

}  // namespace tensora::llm
