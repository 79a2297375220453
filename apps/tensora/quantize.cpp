#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "conversion.h"
#include "figures.h"
#include "tensora/base/check.h"
#include "tensora/base/thread_pool.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/weight_type.h"

namespace tensora::cli {
namespace {

using llm::ModelFile;

struct QuantizeOptions {
  std::string model, type, out;
  int threads = 0;
  bool overwrite = false, json = false, dry_run = false, quiet = false;
};

// "models/tiny.gguf" and "q4_k_m": "models/tiny-q4_k_m.gguf".
std::string default_name(const ModelFile& file, const std::string& type) {
  std::filesystem::path path = file.path();
  if (path.filename().empty()) path = path.parent_path();
  const std::string stem = file.folder().empty() ? path.stem() : path.filename();
  return path.parent_path() / (stem + "-" + type + ".gguf");
}

void quantize(const QuantizeOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const auto began = std::chrono::steady_clock::now();
  const llm::WeightType type = as_usage([&] { return llm::WeightType(options.type); });
  const ModelFile file = ModelFile::open(llm::resolve_model(options.model));
  const std::string out = options.out.empty() ? default_name(file, type.name()) : options.out;
  if (!options.dry_run) check_output(file.path(), out, options.overwrite);
  llm::GgufExportOptions settings{.type = options.type};
  const llm::GgufExport plan = plan_gguf_export(file, settings);
  check(!plan.tensors.empty(), "'", file.path(), "' has no weights, only a vocabulary");
  if (plan.requantized > 0 && !options.quiet)
    std::fprintf(stderr,
                 "tensora quantize: %lld matrices are quantized already and lose once more; the "
                 "original is a better start\n",
                 static_cast<long long>(plan.requantized));
  if (!options.dry_run)
    with_progress("quantizing", options.quiet || options.json, [&](auto progress) {
      settings.progress = progress;
      export_gguf(file, out, settings);
    });
  double numbers = 0;
  for (const llm::TensorSource& tensor : plan.tensors)
    numbers += static_cast<double>(tensor.sizes.numel());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const double bits = numbers > 0 ? 8.0 * static_cast<double>(plan.bytes) / numbers : 0;
  if (options.json) {
    nlohmann::ordered_json json = {
        {"input", file.path()},
        {"output", options.dry_run ? nullptr : nlohmann::ordered_json(out)},
        {"type", type.name()},
        {"input_bytes", file.bytes()},
        {"output_bytes", plan.bytes},
        {"bits_per_weight", bits},
        {"requantized", plan.requantized},
        {"seconds", seconds}};
    std::puts(json.dump(2).c_str());
    return;
  }
  if (options.quiet) return;
  std::printf("%s: %s of weights, %.2f bits each, from %s%s\n", out.c_str(),
              bytes_text(static_cast<double>(plan.bytes)).c_str(), bits,
              bytes_text(static_cast<double>(file.bytes())).c_str(),
              options.dry_run ? " (not written)" : "");
}

std::string known_types() {
  std::string text;
  for (const std::string& name : llm::WeightType::names())
    if (name != "int8" && name != "fp8" && name != "nf4") text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace

void add_quantize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("quantize", "Make a model smaller: a GGUF file with quantized weights");
  auto options = std::make_shared<QuantizeOptions>();
  command
      ->add_option("model", options->model,
                   "A .gguf file, a Hugging Face folder, or a pulled model")
      ->required()
      ->type_name("MODEL");
  command->add_option("type", options->type, "Data type of the matrices: " + known_types())
      ->required()
      ->type_name("TYPE");
  command->add_option("-o,--out", options->out,
                      "Output file. Default: MODEL-TYPE.gguf beside the model");
  command->add_option("-t,--threads", options->threads, "CPU threads. Default: all")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--overwrite", options->overwrite, "Replace a file that is there");
  command->add_flag("--dry-run", options->dry_run, "Only tell how large it would be");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->add_flag("-q,--quiet", options->quiet, "Print nothing but errors");
  command->footer(
      "Which type: q8_0 is as good as the original at half of float16's size; q4_k_m is the usual\n"
      "choice at 30 %; q5_k_m and q6_k lie between; q2_k and q3_k_m are for models that would not\n"
      "fit otherwise. A mix (…_s, …_m, …_l) spends more bits on the tensors where errors weigh "
      "more.\n"
      "Vectors stay float32. One tensor at a time is in memory, and where the disk fills up no\n"
      "half-written file is left.\n\n"
      "Examples:\n"
      "  tensora quantize model-f16.gguf q4_k_m\n"
      "  tensora quantize my-hf-folder q8_0 -o small.gguf\n"
      "  tensora quantize model.gguf q5_k_m --dry-run  how large would it be?");
  command->callback([options] { quantize(*options); });
}

}  // namespace tensora::cli
