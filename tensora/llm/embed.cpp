#include "tensora/llm/embed.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "tensora/llm/hugging_face/json_object.h"
#include "tensora/llm/model_file.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

// The folder of the pooling that sentence-transformers' modules.json names. A module that would
// change the vector further, such as a dense layer, is refused.
std::string pooling_folder(const std::string& folder) {
  const std::string path = folder + "/modules.json";
  std::string pooling = "1_Pooling";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return pooling;
  for (const auto& json : JsonObject::read_list(path)) {
    const JsonObject module(json, path);
    const std::string type = module.text("type");
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Pooling") pooling = module.text("path");
    check(name == "Pooling" || name == "Transformer" || name == "Normalize", "'", path,
          "': the module '", type,
          "' is not supported; expected Transformer, Pooling and Normalize");
  }
  return pooling;
}

// As sentence-transformers writes it: one of several flags is set. It joins the vectors of several.
std::optional<Pooling> pooling_in_folder(const std::string& folder) {
  const std::string path = folder + "/" + pooling_folder(folder) + "/config.json";
  const auto config = JsonObject::read_if_there(path);
  if (!config) return std::nullopt;
  const std::pair<std::string_view, Pooling> modes[] = {{"pooling_mode_mean_tokens", Pooling::mean},
                                                        {"pooling_mode_lasttoken", Pooling::last},
                                                        {"pooling_mode_cls_token", Pooling::first}};
  std::optional<Pooling> chosen;
  for (const auto& item : config->json().items()) {
    const std::string& key = item.key();
    if (!key.starts_with("pooling_mode_") || !config->boolean(key, false)) continue;
    const auto mode = std::find_if(std::begin(modes), std::end(modes),
                                   [&](const auto& known) { return known.first == key; });
    check(mode != std::end(modes) && !chosen, path, ": '", key,
          "' is set; expected pooling by mean, last token or CLS token alone");
    chosen = mode->second;
  }
  check(chosen.has_value(), path, ": expected pooling by mean, last token or CLS token");
  return chosen;
}

}  // namespace

Pooling pooling_named(std::string_view name) {
  if (name == "mean") return Pooling::mean;
  if (name == "last") return Pooling::last;
  if (name == "first" || name == "cls") return Pooling::first;
  check(name == "rank", "pooling: expected mean, last, first or rank, got '", name, "'");
  return Pooling::rank;
}

std::optional<Pooling> pooling_of(const ModelFile& file) {
  if (!file.folder().empty()) return pooling_in_folder(file.folder());
  const std::string key = file.architecture() + ".pooling_type";
  switch (const int64_t type = file.metadata().get_or<int64_t>(key, 0)) {
    case 0:
      return std::nullopt;
    case 1:
      return Pooling::mean;
    case 2:
      return Pooling::first;
    case 3:
      return Pooling::last;
    case 4:
      return Pooling::rank;
    default:
      fail(key, ": expected a number from 0 to 4, got ", type);
  }
}

std::vector<float> embed(SequenceSession& session, std::span<const int32_t> tokens,
                         const EmbedOptions& options) {
  const auto size = static_cast<int64_t>(tokens.size());
  check(size > 0, "embed: the text has no tokens");
  check(options.pooling != Pooling::rank,
        "embed: the model ranks documents (pooling rank) and has no embeddings");
  check(size <= session.options().context, "embed: the text has ", size,
        " tokens, but the context has room for ", session.options().context);
  session.clear();
  std::vector<double> sum;
  for (int64_t at = 0; at < size;) {
    const int64_t count = std::min(session.options().max_batch_tokens, size - at);
    const SequenceSession::Part part{
        0, tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const Tensor states = session.hidden({&part, 1}, SequenceSession::Rows::all).cpu().contiguous();
    const auto width = static_cast<size_t>(states.size(1));
    sum.resize(width);
    for (int64_t i = 0; i < count; ++i) {
      const bool counts = options.pooling == Pooling::mean ||
                          (options.pooling == Pooling::last ? at + i == size - 1 : at + i == 0);
      const float* row = states.data_ptr<float>() + static_cast<size_t>(i) * width;
      if (counts)
        for (size_t j = 0; j < width; ++j) sum[j] += row[j];
    }
    at += count;
  }
  double scale = options.pooling == Pooling::mean ? 1 / static_cast<double>(size) : 1;
  if (options.normalize) {
    double squares = 0;
    for (const double value : sum) squares += value * value;
    scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  }
  std::vector<float> out(sum.size());
  for (size_t j = 0; j < sum.size(); ++j) out[j] = static_cast<float>(sum[j] * scale);
  return out;
}

}  // namespace tensora::llm
