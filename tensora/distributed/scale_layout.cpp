#include <algorithm>
#include <charconv>

#include "tensora/base/error_kinds.h"
#include "tensora/distributed/pipeline_schedule.h"
#include "tensora/distributed/scale.h"

namespace tensora::distributed {
namespace {

int number_of(std::string_view word, std::string_view value) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  check_as<ValueError>(error == std::errc() && end == value.data() + value.size() && number >= 1,
                       "scale: \"", word, "\" of a layout needs a positive number, got \"", value,
                       "\"");
  return number;
}

}  // namespace

std::string ScaleLayout::text() const {
  std::string text;
  if (tensor > 1) text += concat("tp=", tensor, ",");
  if (pipeline > 1) text += concat("pp=", pipeline, ",");
  text += concat("dp=", data);
  if (zero_stage > 0) text += concat(",zero", zero_stage);
  if (pipeline > 1) text += "," + schedule;
  if (stages_per_rank > 1) text += concat("=", stages_per_rank);
  return text;
}

ScaleLayout ScaleLayout::parse(std::string_view text, int ranks) {
  check_as<ValueError>(ranks >= 1, "scale: expected at least one rank, got ", ranks);
  ScaleLayout layout;
  int data = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view whole = text.substr(begin, end - begin);
    const size_t equals = std::min(whole.find('='), whole.size());
    const std::string_view word = whole.substr(0, equals);
    const bool has_value = equals < whole.size();
    const std::string_view value = has_value ? whole.substr(equals + 1) : std::string_view();
    begin = end + 1;
    if (word == "tp" && has_value) {
      layout.tensor = number_of(word, value);
    } else if (word == "pp" && has_value) {
      layout.pipeline = number_of(word, value);
    } else if (word == "dp") {
      data = has_value ? number_of(word, value) : data;
    } else if (word == "interleaved" && has_value) {
      layout.schedule = word;
      layout.stages_per_rank = number_of(word, value);
    } else if (!has_value && (word == "gpipe" || word == "1f1b" || word == "zero-bubble")) {
      layout.schedule = word;
    } else if (!has_value && (word == "zero1" || word == "zero2" || word == "zero3")) {
      layout.zero_stage = word.back() - '0';
    } else {
      check_as<ValueError>(
          false,
          "scale: expected dp, zero1, zero2, zero3, tp=N, pp=N, gpipe, 1f1b, interleaved=V or "
          "zero-bubble in a layout, got \"",
          whole, "\"");
    }
  }
  const int fixed = layout.tensor * layout.pipeline;
  check_as<ValueError>(ranks % fixed == 0, "scale: ", ranks, " ranks cannot be divided into ",
                       "groups of tp x pp = ", fixed);
  layout.data = ranks / fixed;
  check_as<ValueError>(data == 0 || data == layout.data, "scale: the layout \"", text, "\" has ",
                       fixed * data, " ranks, got ", ranks);
  check_as<ValueError>(layout.pipeline > 1 || layout.stages_per_rank == 1,
                       "scale: interleaved needs pp");
  return layout;
}

int64_t ScaleJob::micro_batches(const ScaleLayout& layout) const {
  if (global_batch == 0) return accumulation;
  const int64_t at_once = micro_batch * layout.data;
  check_as<ValueError>(global_batch % at_once == 0, "scale: a global batch of ", global_batch,
                       " sequences cannot be divided among ", layout.data,
                       " data-parallel ranks with micro-batches of ", micro_batch);
  return global_batch / at_once;
}

double ScaleJob::tokens_per_step(const ScaleLayout& layout) const {
  return static_cast<double>(micro_batches(layout) * micro_batch * layout.data * context);
}

models::LLaMAConfig scale_model(const std::string& name) {
  const bool big = name == "llama-3-405b";
  if (big || name == "llama-3-70b")
    return {.vocab_size = 128256,
            .hidden_size = big ? 16384 : 8192,
            .intermediate_size = big ? 53248 : 28672,
            .num_hidden_layers = big ? 126 : 80,
            .num_attention_heads = big ? 128 : 64,
            .num_key_value_heads = 8,
            .max_position_embeddings = 8192,
            .rms_norm_eps = 1e-5,
            .rope_theta = 500000};
  if (name == "gpt3-175b")  // three matrices of 8/3 of the width instead of two of four times
    return {.vocab_size = 51200,
            .hidden_size = 12288,
            .intermediate_size = 32768,
            .num_hidden_layers = 96,
            .num_attention_heads = 96,
            .max_position_embeddings = 2048,
            .tie_word_embeddings = true};
  const std::vector<std::string> known = {"tiny", "small", "llama-3.2-1b", "llama-3-8b"};
  check_as<ValueError>(std::ranges::find(known, name) != known.end(), "scale: there is no model \"",
                       name,
                       "\"; there are tiny, small, llama-3.2-1b, llama-3-8b, llama-3-70b, "
                       "llama-3-405b and gpt3-175b");
  return models::LLaMAConfig::preset(name);
}

}  // namespace tensora::distributed
