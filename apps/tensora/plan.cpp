#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "figures.h"
#include "files.h"
#include "model_options.h"
#include "tensora/base/check.h"
#include "tensora/llm/memory_plan.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/weight_type.h"

namespace tensora::cli {
namespace {

using llm::MemoryPlan;

struct PlanOptions {
  std::string model, device = "cpu", cache_type = "f16", memory;
  llm::MemoryPlanOptions settings;
  bool json = false;
};

std::string text(uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

void print_json(const std::string& path, const PlanOptions& options, const MemoryPlan& plan) {
  nlohmann::ordered_json json = {{"model", path},
                                 {"device", options.device},
                                 {"weights_bytes", plan.weights},
                                 {"cache_bytes", plan.cache},
                                 {"workspace_bytes", plan.workspace},
                                 {"needed_bytes", plan.needed()},
                                 {"memory_bytes", plan.memory},
                                 {"fits", plan.fits()},
                                 {"context", plan.context},
                                 {"largest_context", plan.largest_context},
                                 {"model_context", plan.model_context},
                                 {"cache_bytes_per_token", plan.cache_bytes_per_token},
                                 {"changes", nlohmann::ordered_json::array()}};
  for (const MemoryPlan::Change& change : plan.changes)
    json["changes"].push_back({{"option", change.option}, {"needed_bytes", change.needed}});
  std::puts(json.dump(2).c_str());
}

void print_text(const std::string& path, const PlanOptions& options, const MemoryPlan& plan) {
  std::string out = printable(path, 1000) + " on " + options.device + "\n\n";
  out += table_text(
      {{"what", ">size", "of"},
       {"weights", text(plan.weights),
        options.settings.quantize.empty() ? "as they are" : options.settings.quantize},
       {"keys and values", text(plan.cache),
        concat(options.settings.sequences, " × ", plan.context, " tokens of ",
               text(plan.cache_bytes_per_token), ", ", options.cache_type)},
       {"workspace", text(plan.workspace),
        concat("prompts read ", options.settings.batch, " tokens at once")},
       {"needed", text(plan.needed()), ""},
       {"there is", text(plan.memory), options.memory.empty() ? "free now" : "as --memory says"}});
  if (plan.fits()) {
    out += concat("\nIt fits, with ", text(plan.memory - plan.needed()), " to spare.");
    if (plan.largest_context > plan.context)
      out += concat(" A context of ", plan.largest_context, " tokens would fit too.");
    out += "\n";
  } else if (!plan.changes.empty()) {
    out += "\nAny one of these would make it fit, the smallest loss first:\n";
    for (const MemoryPlan::Change& change : plan.changes)
      out += concat("  ", change.option, "   (needs ", text(change.needed), ")\n");
  }
  std::fputs(out.c_str(), stdout);
}

void plan(PlanOptions& options) {
  options.settings.device = as_usage([&] { return Device(options.device); });
  options.settings.cache_dtype = dtype_named(options.cache_type);
  as_usage([&] { llm::WeightType{options.settings.quantize}; });
  if (!options.memory.empty()) {
    options.settings.memory = static_cast<uint64_t>(parse_size(options.memory));
    if (options.settings.memory == 0) throw UsageError("--memory: expected a size above 0");
  }
  const llm::ModelFile file = llm::ModelFile::open(llm::resolve_model(options.model));
  const MemoryPlan result = plan_memory(file, options.settings);
  if (options.json)
    print_json(file.path(), options, result);
  else
    print_text(file.path(), options, result);
  std::fflush(stdout);
  check(result.fits(), "it does not fit: ", text(result.needed() - result.memory), " are missing",
        result.changes.empty() ? ", and no single change would do" : "");
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Tell whether a model fits into memory, and what would make it fit");
  auto options = std::make_shared<PlanOptions>();
  command
      ->add_option("model", options->model,
                   "A .gguf file, a Hugging Face folder, or a pulled model")
      ->required()
      ->type_name("MODEL");
  command->add_option("--device", options->device, "cpu, cuda, cuda:1, ...")->capture_default_str();
  command
      ->add_option("-c,--context", options->settings.context,
                   "Context size of a sequence, in tokens. Default: the model's own limit")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command
      ->add_option("-s,--sequences", options->settings.sequences, "Number of concurrent sequences")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("-b,--batch", options->settings.batch, "Prompt batch size, in tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--cache-type", options->cache_type,
                   "KV-cache data type: f32, f16, bf16, q8_0, fp8")
      ->capture_default_str();
  command->add_option("--quantize", options->settings.quantize,
                      "Convert the matrices while loading: float16, int8, nf4, q8_0, q4_k_m, ...");
  command->add_option("--memory", options->memory,
                      "Memory to plan for, such as 8G. Default: what is free");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->footer(
      "The weights are not read. Exit code 0: it fits; 1: it does not.\n\n"
      "Examples:\n"
      "  tensora plan model.gguf                       on this machine, with the whole context\n"
      "  tensora plan model.gguf --device cuda -c 8192 -s 4\n"
      "  tensora plan model.gguf --memory 8G           would a machine with 8 GiB do?");
  command->callback([options] { plan(*options); });
}

}  // namespace tensora::cli
