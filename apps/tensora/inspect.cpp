#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "figures.h"
#include "tensora/base/check.h"
#include "tensora/llm/model.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;
using llm::Metadata;
using llm::MetadataValue;
using llm::ModelFile;
using llm::TensorInfo;

struct InspectOptions {
  std::string model;
  bool json = false, tensors = false, all = false;
};

struct Total {
  int64_t tensors = 0;
  double numbers = 0;
  uint64_t bytes = 0;

  void add(const TensorInfo& info) {
    ++tensors;
    numbers += static_cast<double>(info.sizes.numel());
    bytes += info.bytes;
  }
  double bits() const { return numbers > 0 ? 8.0 * static_cast<double>(bytes) / numbers : 0; }
};

// The shapes that the model's numbers imply, for the tensors that every architecture has.
void check_shapes(const ModelFile& file) {
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  const int64_t hidden = config.hidden_size, wide = config.feed_forward;
  const int64_t queries = config.heads * config.head_dim, keys = config.kv_heads * config.head_dim;
  const std::map<std::string, Shape> expected = {
      {"attn_q.weight", {queries, hidden}},
      {"attn_k.weight", {keys, hidden}},
      {"attn_v.weight", {keys, hidden}},
      {"attn_qkv.weight", {queries + 2 * keys, hidden}},
      {"attn_output.weight", {hidden, queries}},
      {"attn_norm.weight", {hidden}},
      {"ffn_norm.weight", {hidden}},
      {"ffn_gate.weight", {wide, hidden}},
      {"ffn_down.weight", {hidden, wide}},
  };
  const auto check_shape = [&](const TensorInfo& info, const Shape& sizes) {
    check(info.sizes == sizes, "the tensor '", info.name, "' has shape ", info.sizes,
          "; the model's numbers imply ", sizes);
  };
  check_shape(file.info("token_embd.weight"), {config.vocab_size, hidden});
  check_shape(file.info("output_norm.weight"), {hidden});
  if (file.contains("output.weight"))
    check_shape(file.info("output.weight"), {config.vocab_size, hidden});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    (void)file.info(concat("blk.", layer, ".attn_norm.weight"));
    for (const auto& [name, sizes] : expected)
      if (const std::string full = concat("blk.", layer, ".", name); file.contains(full))
        check_shape(file.info(full), sizes);
  }
}

// The lists of a vocabulary belong together.
void check_vocabulary(const Metadata& metadata) {
  if (!metadata.contains("tokenizer.ggml.tokens")) return;
  const auto count = metadata.get<std::vector<std::string>>("tokenizer.ggml.tokens").size();
  for (const char* name : {"scores", "token_type"}) {
    const MetadataValue* list = metadata.find(concat("tokenizer.ggml.", name));
    check(!list || list->size() == count, "there are ", count, " tokens but ",
          list ? list->size() : 0, " of tokenizer.ggml.", name);
  }
  for (const char* name : {"bos", "eos", "unknown"}) {
    const std::string key = concat("tokenizer.ggml.", name, "_token_id");
    const int64_t id = metadata.get_or(key, 0);
    // All ones mean that there is none.
    check(id == int64_t{UINT32_MAX} || (id >= 0 && id < static_cast<int64_t>(count)), key, " is ",
          id, ", but there are ", count, " tokens");
  }
}

// What a reader of the format cannot see. A file without weights (a vocabulary, an adapter) and an
// architecture that is not known here are not mistakes.
void check_whole(const ModelFile& file) {
  const auto known = llm::known_architectures();
  const bool is_known = std::find(known.begin(), known.end(), file.architecture()) != known.end();
  const bool is_model = file.metadata().get_or("general.type", "model") == "model";
  if (is_known && is_model && !file.tensors().empty()) check_shapes(file);
  check_vocabulary(file.metadata());
}

Json to_json(const MetadataValue& value, bool all) {
  if (!value.is_array() && value.type() == llm::MetadataType::uint64)
    return static_cast<uint64_t>(std::get<int64_t>(value.contents()));
  constexpr size_t kMost = 64;
  if (!value.is_array() || all || value.size() <= kMost)
    return std::visit([](const auto& contents) { return Json(contents); }, value.contents());
  return {{"type", name(value.type())}, {"count", value.size()}};
}

Json to_json(const Total& total) {
  return {{"tensors", total.tensors},
          {"parameters", total.numbers},
          {"bytes", total.bytes},
          {"bits_per_weight", total.bits()}};
}

void print_json(const ModelFile& file, const Total& whole,
                const std::map<std::string, Total>& types, bool all) {
  Json json = {{"path", file.path()},
               {"format", file.folder().empty() ? "gguf" : "hugging_face"},
               {"architecture", file.architecture()}};
  json.update(to_json(whole));
  for (const auto& [type, total] : types) json["types"][type] = to_json(total);
  json["metadata"] = Json::object();
  for (const auto& [key, value] : file.metadata()) json["metadata"][key] = to_json(value, all);
  if (!file.ignored_fields().empty()) json["ignored_fields"] = file.ignored_fields();
  json["contents"] = Json::array();
  for (const TensorInfo& info : file.tensors())
    json["contents"].push_back(
        {{"name", info.name},
         {"dtype", name(info.dtype)},
         {"shape", std::vector<int64_t>(info.sizes.begin(), info.sizes.end())},
         {"bytes", info.bytes}});
  std::puts(json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void print_text(const ModelFile& file, const Total& whole,
                const std::map<std::string, Total>& types, const InspectOptions& options) {
  std::string out = concat(printable(file.path(), 1000), ": ",
                           file.folder().empty() ? "GGUF" : "a Hugging Face folder", ", ",
                           printable(file.architecture()), ", ", count_text(whole.numbers),
                           " parameters in ", bytes_text(static_cast<double>(whole.bytes)), "\n");
  std::vector<std::vector<std::string>> rows = {
      {"type", ">tensors", ">parameters", ">size", ">bits"}};
  const auto row = [&](const std::string& type, const Total& total) {
    char bits[16];
    std::snprintf(bits, sizeof bits, "%.2f", total.bits());
    rows.push_back({type, concat(total.tensors), count_text(total.numbers),
                    bytes_text(static_cast<double>(total.bytes)), bits});
  };
  for (const auto& [type, total] : types) row(type, total);
  if (types.size() > 1) row("all", whole);
  if (!types.empty()) out += "\n" + table_text(rows);
  rows = {{"key", "type", "value"}};
  for (const auto& [key, value] : file.metadata())
    rows.push_back(
        {printable(key), value.kind(), printable(value.to_string(), options.all ? 10000 : 70)});
  out += "\n" + table_text(rows);
  if (!file.ignored_fields().empty()) {
    out += "\nFields of config.json that are ignored, as transformers ignores them:";
    for (const std::string& field : file.ignored_fields()) out += " " + printable(field);
    out += "\n";
  }
  if (options.tensors || options.all) {
    rows = {{"tensor", "type", ">shape", ">size"}};
    for (const TensorInfo& info : file.tensors())
      rows.push_back({printable(info.name), std::string(name(info.dtype)), concat(info.sizes),
                      bytes_text(static_cast<double>(info.bytes))});
    out += "\n" + table_text(rows);
  } else if (!file.tensors().empty()) {
    out += "\n--tensors lists the tensors.\n";
  }
  std::fputs(out.c_str(), stdout);
}

void inspect(const InspectOptions& options) {
  const ModelFile file = ModelFile::open(llm::resolve_model(options.model));
  try {
    check_whole(file);
  } catch (const Error& error) {
    fail("'", file.path(), "': ", error.what());
  }
  Total whole;
  std::map<std::string, Total> types;
  for (const TensorInfo& info : file.tensors()) {
    whole.add(info);
    types[std::string(name(info.dtype))].add(info);
  }
  if (options.json)
    print_json(file, whole, types, options.all);
  else
    print_text(file, whole, types, options);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model file and check it");
  auto options = std::make_shared<InspectOptions>();
  command
      ->add_option("model", options->model,
                   "A .gguf file (of a split model, the first), a Hugging Face folder, or the name "
                   "of a pulled model")
      ->required()
      ->type_name("MODEL");
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->add_flag("--all", options->all, "Everything in full, long lists too");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->footer(
      "The weights are not read, so that this takes no time for a file of any size. A file that "
      "is\n"
      "cut off, damaged or not a model is an error of one sentence, with exit code 1.\n\n"
      "Examples:\n"
      "  tensora inspect model.gguf                    types, sizes, keys\n"
      "  tensora inspect model.gguf --tensors | less\n"
      "  tensora inspect model.gguf --json | jq .metadata");
  command->callback([options] { inspect(*options); });
}

}  // namespace tensora::cli
