#include "tensora/train/language_run.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/sha256.h"
#include "tensora/base/utf8.h"
#include "tensora/core/random.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/models/gpt2.h"
#include "tensora/models/llama.h"
#include "tensora/ops.h"
#include "tensora/optim/adamw.h"
#include "tensora/train/config_json.h"
#include "tensora/train/parallel.h"
#include "tensora/train/run_lock.h"
#include "tensora/train/story.h"

namespace tensora::train {
namespace {

std::string read_text(const std::string& path) {
  std::error_code error;
  check(!std::filesystem::is_directory(path, error), path, ": is a folder, not a text");
  std::ifstream file(path, std::ios::binary);
  check(file.good(), path, ": cannot be opened: ", std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  check(!file.bad(), path, ": cannot be read");
  return text.str();
}

void write_text(const std::string& path, std::string_view text) {
  io::AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Matrices decay; norms and biases do not.
std::vector<optim::ParamGroup> parameter_groups(const nn::Module& module) {
  optim::ParamGroup decayed{{}, {}, {}}, plain{{}, {{"weight_decay", 0.0}}, {}};
  for (const Tensor& parameter : module.parameters())
    (parameter.dim() >= 2 ? decayed : plain).params.push_back(parameter);
  std::vector<optim::ParamGroup> groups;
  for (optim::ParamGroup& group : std::vector{decayed, plain})
    if (!group.params.empty()) groups.push_back(std::move(group));
  return groups;
}

models::LLaMAConfig llama_config(const LanguageConfig& config, int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .hidden_size = config.width,
          .intermediate_size = config.hidden,
          .num_hidden_layers = config.layers,
          .num_attention_heads = config.heads,
          .num_key_value_heads = config.kv_heads,
          .max_position_embeddings = config.context,
          .tie_word_embeddings = true};
}

models::GPT2Config gpt2_config(const LanguageConfig& config, int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .n_positions = config.context,
          .n_embd = config.width,
          .n_layer = config.layers,
          .n_head = config.heads,
          .n_inner = config.hidden,
          .resid_pdrop = config.dropout,
          .embd_pdrop = config.dropout,
          .attn_pdrop = config.dropout};
}

}  // namespace

class LanguageRun::Network {
 public:
  virtual ~Network() = default;
  virtual nn::Module& module() = 0;
  virtual Tensor loss(const Tensor& tokens, const Tensor& targets) = 0;
  virtual Tensor generate(const Tensor& prompt, const models::GenerateOptions& options) = 0;
  virtual std::string config_json() const = 0;

  template <class Model>
  class Of;
};

template <class Model>
class LanguageRun::Network::Of final : public Network {
 public:
  explicit Of(Model model) : model_(std::move(model)) {}
  nn::Module& module() override { return model_; }
  Tensor loss(const Tensor& tokens, const Tensor& targets) override {
    return model_(tokens, targets);
  }
  Tensor generate(const Tensor& prompt, const models::GenerateOptions& options) override {
    return model_.generate(prompt, options);
  }
  std::string config_json() const override { return model_.config().to_json(); }

 private:
  Model model_;
};

LanguageRun::LanguageRun(const LanguageConfig& config, LanguageRunOptions options)
    : config_(config.resolved()),
      options_(std::move(options)),
      tokenizer_(llm::BpeTokenizer::bytes()),
      device_(config_.device) {
  std::string text = options_.text;
  if (text.empty()) {
    check(!config_.text.empty(), "no text to learn from was given");
    for (const std::string& path : config_.text) text += read_text(path);
  }
  check(text.find_first_not_of(" \t\r\n") != text.npos, "the text to learn from is empty");
  pin_text(text);
  tokenizer_ = make_tokenizer(text);
  config_.vocab_size = tokenizer_.vocab_size();
  std::vector<int32_t> tokens = tokenizer_.encode(text);
  bytes_per_token_ = double(text.size()) / double(tokens.size());
  const auto kept = static_cast<size_t>(double(tokens.size()) * (1 - config_.validation));
  std::vector<int32_t> held_out(tokens.begin() + static_cast<int64_t>(kept), tokens.end());
  tokens.resize(kept);
  training_ = std::make_unique<TokenWindows>(std::move(tokens), config_.context);
  const auto held = static_cast<int64_t>(held_out.size());
  check(held > config_.context || config_.validation == 0,
        "the part of the text for validation has ", held, " tokens, too few for a context of ",
        config_.context, ": give more text, a larger validation or validation 0");
  if (held > config_.context)
    validation_ = std::make_unique<TokenWindows>(std::move(held_out), config_.context);
  manual_seed(config_.seed);
  if (config_.model == "llama")
    network_ = std::make_unique<Network::Of<models::LLaMA>>(
        models::LLaMA(llama_config(config_, config_.vocab_size)));
  else
    network_ = std::make_unique<Network::Of<models::GPT2>>(
        models::GPT2(gpt2_config(config_, config_.vocab_size)));
  network_->module().to(device_);
}

LanguageRun::~LanguageRun() = default;

// A resumed run on another text would go on without a word, with other batches.
void LanguageRun::pin_text(std::string_view text) {
  Sha256 sum;
  sum.update(io::bytes_of_text(text));
  const std::string& wanted = config_.text_sha256;
  check(wanted.empty() || wanted == "any" || wanted == sum.hex(),
        "the text to learn from is not the one that the run began with: its SHA-256 must be ",
        wanted, ", got ", sum.hex(), "; to go on with the changed text, set text_sha256 to 'any'");
  config_.text_sha256 = sum.hex();
}

int64_t LanguageRun::parameter_count() const { return network_->module().parameter_count(); }

llm::BpeTokenizer LanguageRun::make_tokenizer(std::string_view text) const {
  const std::string own = options_.folder + "/tokenizer.json";
  if (options_.resume && std::filesystem::exists(own)) return llm::BpeTokenizer::load(own);
  const std::vector<std::string> special = {std::string(kEndOfText)};
  if (config_.tokenizer == "bytes") return llm::BpeTokenizer::bytes(special);
  if (config_.tokenizer != "bpe") return llm::BpeTokenizer::load(config_.tokenizer);
  // What is held out teaches nothing, not even words.
  const auto kept = static_cast<size_t>(double(text.size()) * (1 - config_.validation));
  return llm::BpeTokenizer::train(text.substr(0, kept),
                                  {.vocab_size = config_.vocab_size, .special = special});
}

Tensor LanguageRun::loss(const TokenWindows::Pair& pair) const {
  return network_->loss(pair.inputs.to(device_), pair.targets.to(device_));
}

std::optional<double> LanguageRun::validation_loss() const {
  if (!validation_ || config_.validate_batches == 0) return std::nullopt;
  const no_grad silent;
  Tensor sum;
  for (int64_t i = 0; i < config_.validate_batches; ++i) {
    const Tensor one = loss(validation_->even(i, config_.validate_batches, config_.batch));
    sum = sum.defined() ? sum + one : one;
  }
  return sum.item<double>() / double(config_.validate_batches);
}

std::string LanguageRun::write(std::string_view prompt,
                               const models::GenerateOptions& options) const {
  std::vector<int64_t> tokens;
  const auto end = tokenizer_.find_special(kEndOfText);
  // A text starts after the end of another.
  if (end) tokens.push_back(*end);
  for (const int32_t token : tokenizer_.encode(prompt)) tokens.push_back(token);
  check(!tokens.empty(), "write: the prompt is empty, and the tokenizer has no ", kEndOfText);
  const auto given = static_cast<int64_t>(tokens.size());
  check(given < config_.context, "write: the prompt has ", given, " tokens, but the context ",
        config_.context);
  models::GenerateOptions limited = options;
  limited.max_new_tokens = std::min(options.max_new_tokens, config_.context - given);
  if (end) limited.stop_tokens = {*end};
  const no_grad silent;
  const Tensor written =
      network_->generate(tensor(tokens, {.dtype = kInt64}).unsqueeze(0).to(device_), limited);
  std::vector<int32_t> ids;
  for (const double id : to_vector<double>(written[0].cpu()))
    ids.push_back(static_cast<int32_t>(id));
  ids.erase(ids.begin(), ids.begin() + given);
  return valid_utf8(tokenizer_.decode(ids, {.special = false}));
}

TrainerOutcome LanguageRun::train() {
  const std::string& folder = options_.folder;
  check(!folder.empty(), "LanguageRun: a run needs a folder");
  Parallel* const ranks = options_.parallel;
  const bool first = !ranks || ranks->is_first();
  std::optional<RunLock> lock;
  if (first) lock.emplace(folder);
  if (first && std::filesystem::exists(folder + "/config.json")) {
    check(options_.resume, folder, " already holds a run: resume it, or choose another folder");
    check_unchanged(config_, read_config<LanguageConfig>(folder), folder);
  }
  optim::AdamW optimizer(
      parameter_groups(network_->module()),
      {.lr = config_.lr, .betas = {0.9, config_.beta2}, .weight_decay = config_.weight_decay});
  TrainerOptions options{.folder = folder,
                         .steps = config_.steps,
                         .grad_accum = config_.grad_accum,
                         .clip_norm = config_.clip_norm,
                         .validate_every = config_.validate_every,
                         .sample_every = config_.sample_tokens > 0 ? config_.sample_every : 0,
                         .checkpoint_every = config_.checkpoint_every,
                         .keep_checkpoints = static_cast<int>(config_.keep_checkpoints),
                         .resume = options_.resume,
                         .lock = lock ? &*lock : nullptr,
                         .parallel = ranks,
                         .find_nan = config_.find_nan,
                         .unit = "token",
                         .units_per_step = config_.batch * config_.grad_accum * config_.context *
                                           (ranks ? ranks->size() : 1)};
  if (config_.amp != "none") options.amp = config_.amp == "bf16" ? kBFloat16 : kFloat16;
  TrainerTask task{
      .loss =
          [this](int64_t step, int64_t part) {
            const uint64_t key = hash_key(config_.seed, uint64_t(step), uint64_t(part));
            return loss(training_->random(key, config_.batch));
          },
      .batch =
          [this](int64_t step, int64_t part) {
            const uint64_t key = hash_key(config_.seed, uint64_t(step), uint64_t(part));
            const TokenWindows::Pair pair = training_->random(key, config_.batch);
            return MicroBatch{pair.inputs.to(device_), pair.targets.to(device_)};
          },
      .learning_rate =
          [this](int64_t step) {
            return warmup_cosine(step, config_.steps, config_.warmup, config_.lr, config_.min_lr);
          },
      .start = [this] { start(); }};
  if (validation_ && config_.validate_batches > 0)
    task.validate = [this] { return Scalars{{"loss/val", *validation_loss()}}; };
  if (config_.sample_tokens > 0)
    task.sample = [this] {
      return config_.prompt + write(config_.prompt, {.max_new_tokens = config_.sample_tokens,
                                                     .temperature = config_.temperature,
                                                     .top_p = 0.95,
                                                     .seed = config_.seed});
    };
  const TrainerOutcome outcome =
      Trainer(network_->module(), optimizer, std::move(options), std::move(task)).run();
  if (ranks)
    ranks->with_whole_parameters([&] {
      if (first) write_model();
    });
  else
    write_model();
  return outcome;
}

void LanguageRun::write_model() const {
  const std::string folder = options_.folder + "/model";
  write_text(folder + "/config.json", network_->config_json());
  tokenizer_.save(folder + "/tokenizer.json");
  io::save_safetensors(network_->module().state_dict(), folder + "/model.safetensors");
}

// The checkpoint fits the settings, so that these may replace the ones in the folder.
void LanguageRun::start() {
  const std::string& folder = options_.folder;
  std::error_code error;
  std::filesystem::create_directories(folder + "/model", error);
  check(!error, folder, "/model: cannot be created: ", error.message());
  io::AtomicFile::remove_abandoned(folder);
  io::AtomicFile::remove_abandoned(folder + "/model");
  write_config(config_, folder);
  tokenizer_.save(folder + "/tokenizer.json");
}

}  // namespace tensora::train
