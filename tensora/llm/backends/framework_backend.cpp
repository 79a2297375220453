#include "tensora/llm/backends/framework_backend.h"

#include "tensora/llm/chat_encoder.h"

namespace tensora::llm {

void FrameworkBackend::load_synthetic(const std::string& shape, const std::string&,
                                      const BackendOptions&) {
  fail(name(), ": this framework cannot make the synthetic model ", shape);
}

Completion FrameworkBackend::generate(Request request,
                                      const std::function<void(const Piece&)>& on_piece) {
  Generation generation = submit(std::move(request));
  if (on_piece)
    while (const auto piece = generation.next()) on_piece(*piece);
  return generation.wait();
}

std::vector<int32_t> FrameworkBackend::tokens_of(const Request& request) {
  if (!request.tokens.empty()) return request.tokens;
  const TokenizerPtr tokenizer = this->tokenizer();
  check(tokenizer != nullptr, "request: ", name(), " has loaded no tokenizer; give tokens");
  if (request.messages.empty())
    return tokenizer->encode(request.prompt,
                             {.add_special = true, .parse_special = request.parse_special});
  const ChatTemplate* chat = chat_template();
  check(chat != nullptr, "request: ", name(), " has no chat template; give a prompt");
  return ChatEncoder(tokenizer, *chat).encode(request.messages, request.chat);
}

std::unique_ptr<SequenceSession> FrameworkBackend::open_sequences(const SessionOptions&) {
  fail(name(), ": this framework answers requests only; it cannot compute given tokens, which ",
       "benchmarks, perplexity, embeddings and logits need");
}

std::shared_ptr<const LoraAdapter> FrameworkBackend::load_adapter(const std::string& path) {
  fail(name(), ": this framework takes no LoRA adapters, got ", path);
}

}  // namespace tensora::llm
