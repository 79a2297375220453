#include "tensora/llm/embed.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "files.h"
#include "model_options.h"

namespace tensora::cli {
namespace {

struct EmbedSettings {
  ModelOptions model;
  std::vector<std::string> texts;
  std::string file, pooling;
  bool normalizes = true, json = false;
};

std::vector<std::string> texts_of(const EmbedSettings& settings) {
  std::vector<std::string> texts = settings.texts;
  if (settings.file.empty()) return texts;
  const std::string all = read_file(settings.file);
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    if (end > begin) texts.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

void run_embed(const EmbedSettings& settings) {
  const std::vector<std::string> texts = texts_of(settings);
  if (texts.empty()) throw UsageError("expected texts, or a file of lines with -f");
  const LoadedModel loaded = load_model(settings.model);
  const llm::EmbedOptions options{.pooling = chosen_pooling(settings.pooling, settings.model.model),
                                  .normalize = settings.normalizes};
  const int64_t positions = loaded.info.positions;
  std::vector<std::vector<int32_t>> all;
  int64_t longest = 1;
  for (const std::string& text : texts) {
    all.push_back(loaded.backend->tokenizer()->encode(text));
    const auto size = static_cast<int64_t>(all.back().size());
    check(positions == 0 || size <= positions, "embed: text ", all.size(), " has ", size,
          " tokens, but the model has ", positions, " positions");
    longest = std::max(longest, size);
  }
  const auto session = loaded.backend->open_sequences({.context = longest});
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<int32_t>& tokens = all[i];
    const std::vector<float> vector = llm::embed(*session, tokens, options);
    if (settings.json) {
      list.push_back({{"index", i}, {"tokens", tokens.size()}, {"embedding", vector}});
      continue;
    }
    for (size_t j = 0; j < vector.size(); ++j)
      std::printf(j == 0 ? "%.6g" : " %.6g", static_cast<double>(vector[j]));
    std::printf("\n");
  }
  if (settings.json) std::printf("%s\n", list.dump().c_str());
}

}  // namespace

void add_embed(CLI::App& app) {
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors");
  auto settings = std::make_shared<EmbedSettings>();
  command->add_option("model,-m,--model", settings->model.model, "A GGUF file, a folder or a name")
      ->required()
      ->type_name("MODEL");
  command->add_option("texts", settings->texts, "The texts")->type_name("TEXT");
  command->add_option("-f,--file", settings->file,
                      "A text per line, blank lines left out; -: standard input");
  command
      ->add_option(
          "--pooling", settings->pooling,
          "Pooling of the token states: mean, last or first. Default: the model's own, or mean")
      ->check(CLI::IsMember({"mean", "last", "first"}));
  command->add_flag("!--no-normalize", settings->normalizes, "Keep the length of the vectors");
  command->add_flag("--json", settings->json, "Print a JSON list");
  command->add_flag("-q,--quiet", settings->model.quiet, "No notes");
  add_model_options(*command, settings->model);
  command->footer(
      "A line of numbers per text. The dot product of two normalised vectors is their likeness.\n\n"
      "Examples:\n"
      "  tensora embed model.gguf 'a cat' 'a kitten' 'a spreadsheet'\n"
      "  tensora embed model.gguf -f lines.txt --json > vectors.json");
  command->callback([settings] { run_embed(*settings); });
}

}  // namespace tensora::cli
