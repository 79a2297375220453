#include "tensora/llm/sequence_session.h"

#include "tensora/ops.h"

namespace tensora::llm {

Tensor SequenceSession::hidden(std::span<const Part>, Rows) {
  fail("embed: this framework does not give out hidden states");
}

void SequenceSession::check_generate(std::span<const int32_t> first, int64_t count) const {
  check(options_.generates && static_cast<int64_t>(first.size()) == options_.sequences && count > 0,
        "sequence session: generate expects the option `generates`, a token for each of ",
        options_.sequences, " sequences and a positive count, got ", first.size(), " tokens and ",
        count);
  for (int64_t i = 0; i < options_.sequences; ++i)
    check(length(i) + count <= options_.context, "sequence session: ", length(i) + count,
          " tokens do not fit the context of ", options_.context);
}

std::vector<int32_t> SequenceSession::generate(std::span<const int32_t> first, int64_t count) {
  check_generate(first, count);
  std::vector<int32_t> tokens(first.begin(), first.end());
  std::vector<Part> parts;
  for (int64_t i = 0; i < options_.sequences; ++i)
    parts.push_back({i, std::span(tokens).subspan(static_cast<size_t>(i), 1)});
  for (; count > 0; --count) {
    const auto best = to_vector<int64_t>(argmax(forward(parts, Rows::last), 1));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(best[i]);
  }
  return tokens;
}

Tensor SequenceSession::read(int64_t sequence, std::span<const int32_t> tokens) {
  Tensor logits;
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), static_cast<size_t>(options_.max_batch_tokens));
    const Part part{sequence, tokens.first(count)};
    tokens = tokens.subspan(count);
    logits = forward({&part, 1}, tokens.empty() ? Rows::last : Rows::none);
  }
  return logits;
}

void SequenceSession::copy(int64_t from, int64_t to, std::span<const int32_t> tokens) {
  check(length(from) == static_cast<int64_t>(tokens.size()) && length(to) == 0,
        "sequence session: copy expects the ", length(from), " tokens of sequence ", from,
        " and an empty sequence ", to, ", got ", tokens.size(), " tokens and one of ", length(to));
  read(to, tokens);
}

void SequenceSession::clear() {
  for (int64_t i = 0; i < options_.sequences; ++i) truncate(i, 0);
}

}  // namespace tensora::llm
