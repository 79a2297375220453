#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "conversion.h"
#include "figures.h"
#include "files.h"
#include "tensora/base/check.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/hugging_face/folder_export.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/weight_type.h"

namespace tensora::cli {
namespace {

using llm::ModelFile;

struct ConvertOptions {
  std::string model, out, type, pre, shard = "4G";
  bool overwrite = false, json = false, quiet = false;
};

void convert(const ConvertOptions& options) {
  as_usage([&] { llm::WeightType{options.type}; });
  const ModelFile file = ModelFile::open(llm::resolve_model(options.model));
  const bool to_gguf = options.out.ends_with(".gguf");
  if (!to_gguf && !options.pre.empty())
    throw UsageError("--pre is for the way to GGUF; '" + options.out + "' does not end in .gguf");
  const std::string extension = std::filesystem::path(options.out).extension();
  for (const char* other : {".bin", ".safetensors", ".json", ".pt", ".pth", ".ggml"})
    if (extension == other)
      throw UsageError("'" + options.out + "': expected FILE.gguf, or a folder, whose name does " +
                       "not end like that of a file");
  const int64_t shard = parse_size(options.shard);
  if (shard <= 0) throw UsageError("--shard-size must be positive, got " + options.shard);
  check_output(file.path(), options.out, options.overwrite);
  with_progress("converting", options.quiet || options.json, [&](auto progress) {
    if (to_gguf)
      export_gguf(file, options.out,
                  {.type = options.type, .pre = options.pre, .progress = progress});
    else
      export_folder(file, options.out,
                    {.type = options.type,
                     .shard_bytes = static_cast<uint64_t>(shard),
                     .progress = progress});
  });
  const ModelFile written = ModelFile::open(options.out);
  if (options.json) {
    const nlohmann::ordered_json json = {{"input", file.path()},
                                         {"output", options.out},
                                         {"format", to_gguf ? "gguf" : "hugging_face"},
                                         {"architecture", written.architecture()},
                                         {"tensors", written.tensors().size()},
                                         {"bytes", written.bytes()}};
    std::puts(json.dump(2).c_str());
  } else if (!options.quiet) {
    std::printf("%s: %zu tensors, %s\n", options.out.c_str(), written.tensors().size(),
                bytes_text(static_cast<double>(written.bytes())).c_str());
  }
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "convert", "Turn a Hugging Face folder into a GGUF file, or a GGUF file into a folder");
  auto options = std::make_shared<ConvertOptions>();
  command
      ->add_option("model", options->model,
                   "A .gguf file, a Hugging Face folder, or a pulled model")
      ->required()
      ->type_name("MODEL");
  command->add_option("out", options->out, "FILE.gguf, or the folder to write")
      ->required()
      ->type_name("OUT");
  command->add_option(
      "--type", options->type,
      "Data type of the matrices: f32, f16, bf16, or for GGUF any type of 'tensora quantize'. "
      "Default: unchanged (in a folder, quantized ones become f16)");
  command->add_option("--pre", options->pre,
                      "How the tokenizer cuts words, by GGUF's name (llama-bpe, qwen2, ...); found "
                      "out from tokenizer.json unless given");
  command
      ->add_option("--shard-size", options->shard,
                   "Maximum size of a safetensors file, such as 500M or 4G")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace what is there");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->add_flag("-q,--quiet", options->quiet, "Print nothing but errors");
  command->footer(
      "Names, keys and the tokenizer are translated, and the rows of q and k brought into the "
      "order\n"
      "that each format has, so that the model computes the same either way. A split GGUF model\n"
      "becomes one file.\n\n"
      "Examples:\n"
      "  tensora convert my-hf-folder model.gguf\n"
      "  tensora convert my-hf-folder model.gguf --type q4_k_m\n"
      "  tensora convert model.gguf my-hf-folder --type bf16");
  command->callback([options] { convert(*options); });
}

}  // namespace tensora::cli
