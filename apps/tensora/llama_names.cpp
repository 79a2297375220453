#include "llama_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tensora::cli {
namespace {

struct LlamaName {
  std::string_view name;
  std::string_view ours;  // an option of the same meaning, or empty
  std::string_view hint;  // what to use instead
};

constexpr std::string_view kDevice =
    "one device runs the whole model: use --device cuda, --device cuda:1 or --device cpu";
constexpr std::string_view kCacheType = "keys and values have one data type: use --cache-type";
constexpr std::string_view kMapped = "weights are always read from the mapped file; leave it out";
constexpr std::string_view kAttention = "attention is always fused; leave it out";
constexpr std::string_view kChat = "use 'tensora chat', or 'tensora run --chat' for one message";

constexpr std::array kNames = {
    LlamaName{"-sys", "--system", ""},
    LlamaName{"--system-prompt", "--system", ""},
    LlamaName{"--predict", "--tokens", ""},
    LlamaName{"--n-predict", "--tokens", ""},
    LlamaName{"--ctx-size", "--context", ""},
    LlamaName{"-ub", "--batch", ""},
    LlamaName{"--ubatch-size", "--batch", ""},
    LlamaName{"-j", "--json-schema", ""},
    LlamaName{"-jf", "--json-schema-file", ""},
    LlamaName{"--typical-p", "--typical", ""},
    LlamaName{"--top-nsigma", "--top-n-sigma", ""},
    LlamaName{"--dry-penalty-last-n", "--dry-last-n", ""},
    LlamaName{"--mirostat-ent", "--mirostat-tau", ""},
    LlamaName{"--mirostat-lr", "--mirostat-eta", ""},
    LlamaName{"-md", "--draft-model", ""},
    LlamaName{"--model-draft", "--draft-model", ""},
    LlamaName{"--draft-n", "--draft", ""},
    LlamaName{"--draft-max", "--draft", ""},
    LlamaName{"-sp", "--special", ""},
    LlamaName{"--chat-template-file", "--template", ""},
    LlamaName{"--ppl-stride", "--stride", ""},
    LlamaName{"-pg", "--pg", ""},
    LlamaName{"-ngl", "", kDevice},
    LlamaName{"--gpu-layers", "", kDevice},
    LlamaName{"--n-gpu-layers", "", kDevice},
    LlamaName{"-dev", "", kDevice},
    LlamaName{"-sm", "", kDevice},
    LlamaName{"--split-mode", "", kDevice},
    LlamaName{"-ts", "", kDevice},
    LlamaName{"--tensor-split", "", kDevice},
    LlamaName{"-mg", "", kDevice},
    LlamaName{"--main-gpu", "", kDevice},
    LlamaName{"-ctk", "", kCacheType},
    LlamaName{"-ctv", "", kCacheType},
    LlamaName{"--cache-type-k", "", kCacheType},
    LlamaName{"--cache-type-v", "", kCacheType},
    LlamaName{"-fa", "", kAttention},
    LlamaName{"--flash-attn", "", kAttention},
    LlamaName{"--mlock", "", kMapped},
    LlamaName{"--mmap", "", kMapped},
    LlamaName{"-mmp", "", kMapped},
    LlamaName{"--no-mmap", "", kMapped},
    LlamaName{"-cnv", "", kChat},
    LlamaName{"--conversation", "", kChat},
    LlamaName{"-i", "", kChat},
    LlamaName{"--interactive", "", kChat},
    LlamaName{"-st", "", kChat},
    LlamaName{"--single-turn", "", kChat},
    LlamaName{"-no-cnv", "", "'tensora run' without --chat continues the text as it is"},
    LlamaName{"--no-conversation", "", "'tensora run' without --chat continues the text as it is"},
    LlamaName{"--no-display-prompt", "", "the prompt is printed only with --echo; leave it out"},
    LlamaName{"--verbose-prompt", "", "use --show-prompt"},
    LlamaName{"-r", "", "use --stop TEXT, which ends the answer before TEXT"},
    LlamaName{"--reverse-prompt", "", "use --stop TEXT, which ends the answer before TEXT"},
    LlamaName{"--context-shift", "", "use --overflow shift"},
    LlamaName{"--no-context-shift", "", "that is the default; leave it out"},
    LlamaName{"--jinja", "", "the model's Jinja template is always used; leave it out"},
    LlamaName{"--chat-template", "", "use --template FILE with a Jinja template"},
    LlamaName{"--chat-template-kwargs", "", "use --template-var NAME=VALUE"},
    LlamaName{"--batch-size", "", "-b, --batch is the number of tokens computed at once, as -ub"},
    LlamaName{"-tb", "", "-t sets the threads of prefill and decode"},
    LlamaName{"--threads-batch", "", "-t sets the threads of prefill and decode"},
    LlamaName{"-hf", "", "'tensora pull NAME' fetches a model"},
    LlamaName{"--hf-repo", "", "'tensora pull NAME' fetches a model"},
    LlamaName{"-l", "", "use --logit-bias TOKEN=NUMBER"},
    LlamaName{"--lora-scaled", "", "use --lora FILE --lora-scale SCALE"},
    LlamaName{"-e", "", "escapes in a prompt are not interpreted; write $'two\\nlines' or use -f"},
    LlamaName{"--samplers", "", "the order of samplers is fixed; switch each off by its option"},
};

// Of llama-server; looked up first where the command is serve.
constexpr std::array kServerNames = {
    LlamaName{"-np", "--parallel", ""},
    LlamaName{"--api-key-file", "--api-keys", ""},
    LlamaName{"--ssl-key-file", "--tls-key", ""},
    LlamaName{"--ssl-cert-file", "--tls-cert", ""},
    LlamaName{"--api-key", "", "other users can read the command line; use --api-keys FILE"},
    LlamaName{"-a", "", "use --alias NAME=MODEL"},
    LlamaName{"-cb", "", "batching is always continuous; leave it out"},
    LlamaName{"--cont-batching", "", "batching is always continuous; leave it out"},
    LlamaName{"--embedding", "", "/v1/embeddings is always there; leave it out"},
    LlamaName{"--embeddings", "", "/v1/embeddings is always there; leave it out"},
    LlamaName{"--rerank", "", "use --pooling rank, if the model's file does not say so"},
    LlamaName{"--reranking", "", "use --pooling rank, if the model's file does not say so"},
    LlamaName{"--metrics", "", "/metrics is always there; leave it out"},
    LlamaName{"--props", "", "/props is always there; leave it out"},
    LlamaName{"--slots", "", "/slots is always there; leave it out"},
    LlamaName{"--no-webui", "", "the chat page cannot be switched off; leave it out"},
};

// Null where llama.cpp has no option of this name.
const LlamaName* llama_name(const std::string& name, bool serves) {
  const auto find = [&](const auto& names) {
    const auto* found = std::ranges::find(names, name, &LlamaName::name);
    return found == names.end() ? nullptr : found;
  };
  const LlamaName* const ours = serves ? find(kServerNames) : nullptr;
  return ours ? ours : find(kNames);
}

// The command's option of exactly this name; null where there is none.
const CLI::Option* option_named(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw(name);
}

}  // namespace

std::string translate_llama_names(const CLI::App& app, std::vector<std::string>& words) {
  constexpr std::array kCommands = {"run", "chat", "serve", "bench", "perplexity", "embed"};
  if (words.empty() || std::ranges::find(kCommands, words[0]) == kCommands.end()) return {};
  const CLI::App& command = *app.get_subcommand(words[0]);
  bool is_value = false;  // of the option before
  for (size_t i = 1; i < words.size(); ++i) {
    std::string& word = words[i];
    if (word == "--") return {};
    if (std::exchange(is_value, false) || !word.starts_with('-')) continue;
    const size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const LlamaName* const found = llama_name(name, words[0] == "serve");
    if (found && !option_named(command, name)) {
      const std::string ours(found->ours);
      if (ours.empty())
        return "llama.cpp's option " + name +
               " has no equivalent here: " + std::string(found->hint);
      if (!option_named(command, ours)) continue;
      word = ours + word.substr(equals);
    }
    const CLI::Option* option = option_named(command, word);
    is_value = option != nullptr && option->get_items_expected_min() > 0;
  }
  return {};
}

}  // namespace tensora::cli
