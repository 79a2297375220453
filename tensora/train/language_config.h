#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensora::train {

/// Everything that determines a run of language-model training. Sizes that are 0 are taken from the
/// preset; `resolved()` fills them in. A run keeps its resolved configuration in config.json.
struct LanguageConfig {
  std::vector<std::string> text = {};
  std::string preset = "tiny";
  std::string model = "";         // llama or gpt2; the preset's if empty
  std::string tokenizer = "bpe";  // bpe, bytes, or the path of a tokenizer.json
  int64_t vocab_size = 0, context = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, hidden = 0;
  double dropout = 0;

  std::string device = "cpu";
  std::string amp = "none";  // none, bf16 or f16
  int64_t steps = 0, batch = 0, grad_accum = 1, warmup = 0;
  double lr = 0, min_lr = 0;
  double weight_decay = 0.1, beta2 = 0.95, clip_norm = 1;
  uint64_t seed = 1;

  double validation = 0.05;  // the part of the text, at its end, that is not trained on
  int64_t validate_every = 0, validate_batches = 16;
  int64_t sample_every = 0, sample_tokens = 200;
  std::string prompt = "";  // what samples start with
  double temperature = 0.8;
  int64_t checkpoint_every = 0;
  int64_t keep_checkpoints = 3;
  bool find_nan = false;
  std::string text_sha256 = "";  // of the joined text; a run fills it in

  /// What a resumed run cannot change: the model and the tokenizer.
  static constexpr const char* fixed[] = {"preset", "model", "tokenizer", "width",
                                          "layers", "heads", "kv_heads",  "hidden"};

  /// Calls visit(name, member, help) for every setting: the one list of them, from which the
  /// options of the command line and config.json are made.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("text", self.text, "Files to learn from; several are joined");
    visit("preset", self.preset,
          "The size of the model: tiny (1.2 M parameters, minutes on a CPU), small (28 M, a GPU), "
          "gpt2 "
          "(124 M, GPT-2's own shape)");
    visit("model", self.model, "The architecture, llama or gpt2; the preset's unless given");
    visit(
        "tokenizer", self.tokenizer,
        "bpe learns a vocabulary from the text, bytes needs none; or the path of a tokenizer.json");
    visit("vocab_size", self.vocab_size, "Tokens of the vocabulary that bpe learns");
    visit("context", self.context, "How many tokens the model sees at once");
    visit("width", self.width, "Numbers per token inside the model");
    visit("layers", self.layers, "Blocks of the model");
    visit("heads", self.heads, "Attention heads; they divide the width");
    visit("kv_heads", self.kv_heads, "Heads of keys and values (llama); they divide the heads");
    visit("hidden", self.hidden,
          "Numbers per token between the two halves of a feed-forward layer");
    visit("dropout", self.dropout, "The part of activations that is dropped in training (gpt2)");
    visit("device", self.device, "cpu, cuda, cuda:1");
    visit("amp", self.amp, "Mixed precision: bf16 or f16 for matrix products; none: float32");
    visit("steps", self.steps, "Steps of the optimizer");
    visit("batch", self.batch, "Sequences per part of a step");
    visit("grad_accum", self.grad_accum,
          "Parts of a step, computed one after the other, whose gradients are added");
    visit("warmup", self.warmup, "Steps until the learning rate is at its peak");
    visit("lr", self.lr, "The peak of the learning rate");
    visit("min_lr", self.min_lr, "The learning rate at the end; a tenth of lr unless given");
    visit("weight_decay", self.weight_decay, "AdamW's decay of matrices");
    visit("beta2", self.beta2, "AdamW's second beta");
    visit("clip_norm", self.clip_norm, "The largest norm of the gradients; 0: any");
    visit("seed", self.seed, "Of the weights, the batches and dropout");
    visit("validation", self.validation,
          "The part of the text, at its end, that is not trained on");
    visit("validate_every", self.validate_every, "Steps between two validations");
    visit("validate_batches", self.validate_batches, "Batches of a validation");
    visit("sample_every", self.sample_every, "Steps between two samples");
    visit("sample_tokens", self.sample_tokens, "The longest sample");
    visit("prompt", self.prompt, "What samples start with");
    visit("temperature", self.temperature, "0: always the likeliest token; 1: as the model thinks");
    visit("checkpoint_every", self.checkpoint_every, "Steps between two checkpoints");
    visit("keep_checkpoints", self.keep_checkpoints, "How many are kept, besides the best; 0: all");
    visit("find_nan", self.find_nan,
          "Check the loss of every step; where it is not finite, name the op that made it so");
    visit("text_sha256", self.text_sha256,
          "SHA-256 that the joined text must have; a run keeps the one it began with, and 'any' "
          "accepts a changed text");
  }

  /// With the preset's values where none are given; throws if something is unknown or out of range.
  LanguageConfig resolved() const;
  std::string to_json() const;
  static LanguageConfig from_json(std::string_view json);
};

std::vector<std::string> language_presets();

}  // namespace tensora::train
