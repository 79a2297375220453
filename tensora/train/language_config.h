#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensora::train {

/// Everything that determines a run of language-model training. Sizes that are 0, and settings that
/// are -1 where 0 has a meaning, are taken from the preset; `resolved()` fills them in. A run keeps
/// its resolved configuration in config.json.
struct LanguageConfig {
  std::vector<std::string> text = {};
  std::string preset = "tiny";
  std::string model = "";         // llama or gpt2; the preset's if empty
  std::string tokenizer = "bpe";  // bpe, bytes, or the path of a tokenizer.json
  int64_t vocab_size = 0, context = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, hidden = 0;
  double dropout = 0;

  std::string device = "cpu";
  std::string amp = "none";  // none, bf16 or f16
  int64_t steps = 0, batch = 0, grad_accum = 1, warmup = -1;
  double lr = 0, min_lr = -1;
  double weight_decay = 0.1, beta2 = 0.95, clip_norm = 1;
  uint64_t seed = 1;

  double validation = 0.05;  // the part of the text, at its end, that is not trained on
  int64_t validate_every = -1, validate_batches = 16;
  int64_t sample_every = -1, sample_tokens = 200;
  std::string prompt = "";  // what samples start with
  double temperature = 0.8;
  int64_t checkpoint_every = -1;
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
          "Model size: tiny (1.2 M parameters, minutes on a CPU), small (28 M, a GPU) or gpt2 (124 "
          "M, "
          "GPT-2's own shape)");
    visit("model", self.model, "Architecture: llama or gpt2. Default: the preset's");
    visit("tokenizer", self.tokenizer,
          "bpe (learns a vocabulary from the text), bytes, or the path of a tokenizer.json");
    visit("vocab_size", self.vocab_size, "Vocabulary size that bpe learns. Default: the preset's");
    visit("context", self.context, "Context size in tokens. Default: the preset's");
    visit("width", self.width, "Hidden size (d_model). Default: the preset's");
    visit("layers", self.layers, "Number of transformer layers. Default: the preset's");
    visit("heads", self.heads,
          "Number of attention heads; a divisor of the width. Default: the preset's");
    visit("kv_heads", self.kv_heads,
          "Number of key/value heads (GQA, llama only); a divisor of the heads. Default: the "
          "preset's");
    visit("hidden", self.hidden,
          "Feed-forward size (intermediate_size). Default: the preset's, or what fits --width");
    visit("dropout", self.dropout, "Dropout probability (gpt2 only)");
    visit("device", self.device, "cpu, cuda, cuda:1");
    visit("amp", self.amp, "Mixed precision: bf16 or f16 for matrix products; none: float32");
    visit("steps", self.steps, "Number of optimizer steps. Default: the preset's");
    visit("batch", self.batch, "Micro-batch size in sequences. Default: the preset's");
    visit("grad_accum", self.grad_accum, "Gradient accumulation: micro-batches per optimizer step");
    visit("warmup", self.warmup,
          "Warmup steps of the learning rate. Default: the preset's, at most a tenth of --steps");
    visit("lr", self.lr, "Peak learning rate. Default: the preset's");
    visit("min_lr", self.min_lr, "Final learning rate. Default: a tenth of --lr");
    visit("weight_decay", self.weight_decay, "Weight decay of matrices (AdamW)");
    visit("beta2", self.beta2, "Second beta of AdamW");
    visit("clip_norm", self.clip_norm, "Clip the gradient norm to this. 0: off");
    visit("seed", self.seed, "Random seed of weights, batches and dropout");
    visit("validation", self.validation, "Validation share: the end of the text is not trained on");
    visit("validate_every", self.validate_every,
          "Steps between validations. 0: only at the end. Default: a twentieth of --steps");
    visit("validate_batches", self.validate_batches, "Number of batches per validation");
    visit("sample_every", self.sample_every,
          "Steps between text samples. 0: only at the end. Default: a quarter of --steps");
    visit("sample_tokens", self.sample_tokens, "Length of a text sample, in tokens");
    visit("prompt", self.prompt, "Prompt of the text samples");
    visit("temperature", self.temperature, "Sampling temperature of the text samples. 0: greedy");
    visit("checkpoint_every", self.checkpoint_every,
          "Steps between checkpoints. 0: only at the end. Default: a tenth of --steps");
    visit("keep_checkpoints", self.keep_checkpoints,
          "Number of checkpoints to keep besides the best. 0: all");
    visit("find_nan", self.find_nan,
          "Check the loss of every step; where it is not finite, name the op that made it so");
    visit("text_sha256", self.text_sha256,
          "Expected SHA-256 of the joined text; any: accept a changed text. Default: that of the "
          "text that the run began with");
  }

  /// With the preset's values where none are given; throws if something is unknown or out of range.
  LanguageConfig resolved() const;
  std::string to_json() const;
  static LanguageConfig from_json(std::string_view json);
};

std::vector<std::string> language_presets();

}  // namespace tensora::train
