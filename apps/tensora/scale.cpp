#include "tensora/distributed/scale.h"

#include <cstdio>
#include <memory>

#include "commands.h"
#include "files.h"
#include "scale_report.h"
#include "tensora/distributed/init.h"

namespace tensora::cli {
namespace {

using namespace distributed;

struct ScaleFlags {
  std::string model = "llama-3-8b", machine = "h100", measured, calibrate, svg;
  std::vector<int> ranks = {8, 32, 128};
  std::vector<std::string> layouts;
  ScaleJob job;
  std::string dtype = "bfloat16";
  bool json = false, search = false;
};

bool is_file(const std::string& text) { return text.ends_with(".json"); }

ScaleMachine machine_of(const std::string& name) {
  if (is_file(name)) return ScaleMachine::from_json(read_file(name));
  if (name == "here") return measure_machine(*make_group_of_one());
  return as_usage([&] { return ScaleMachine::preset(name); });
}

models::LLaMAConfig model_of(const std::string& name) {
  if (is_file(name)) return models::LLaMAConfig::from_json(read_file(name));
  return as_usage([&] { return scale_model(name); });
}

// "8:5762": ranks, and tokens per second of each.
void calibrate(ScaleModel& model, const ScaleFlags& flags) {
  int ranks = 0;
  double tokens = 0;
  char rest = 0;
  if (std::sscanf(flags.measured.c_str(), "%d:%lf%c", &ranks, &tokens, &rest) != 2 || ranks < 1 ||
      !(tokens > 0))
    throw UsageError("--measured: expected RANKS:TOKENS_PER_SECOND_AND_RANK, got '" +
                     flags.measured + "'");
  model.calibrate(as_usage([&] { return ScaleLayout::parse(flags.layouts[0], ranks); }),
                  tokens * ranks);
}

void measure_here(const std::string& path) {
  const int status = distributed::run([&](ProcessGroup& world) {
    const ScaleMachine machine = measure_machine(world);
    if (world.rank() == 0) write_file(path, machine.to_json());
  });
  if (status != 0) throw EndWith{status};
}

void predict(ScaleFlags flags) {
  flags.job.model = model_of(flags.model);
  flags.job.dtype = flags.dtype == "float32" ? kFloat32 : kBFloat16;
  if (flags.layouts.empty()) flags.layouts = {"zero3"};
  const ScaleMachine machine = machine_of(flags.machine);
  ScaleModel model(flags.job, machine);
  if (!flags.measured.empty()) calibrate(model, flags);
  std::vector<ScalePrediction> predictions;
  for (const int ranks : flags.ranks) {
    if (flags.search) {
      const auto found = model.search(ranks);
      predictions.insert(predictions.end(), found.begin(), found.end());
      continue;
    }
    for (const std::string& layout : flags.layouts)
      predictions.push_back(
          model.predict(as_usage([&] { return ScaleLayout::parse(layout, ranks); })));
  }
  if (!flags.svg.empty()) write_file(flags.svg, scale_svg(flags.model, predictions));
  if (flags.json)
    std::puts(scale_json(flags.job, machine, predictions).c_str());
  else
    std::fputs(scale_table(predictions).c_str(), stdout);
}

void add_job_options(CLI::App& command, ScaleFlags& flags) {
  command
      .add_option("--model", flags.model,
                  "Model: tiny, small, llama-3.2-1b, llama-3-8b, llama-3-70b, llama-3-405b, "
                  "gpt3-175b, or a config.json")
      ->capture_default_str();
  command.add_option("--context", flags.job.context, "Tokens of a sequence")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command.add_option("--batch", flags.job.micro_batch, "Micro-batch size in sequences per rank")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      .add_option("--grad-accum", flags.job.accumulation,
                  "Micro-batches of a rank in a step: gradient accumulation, or a pipeline's")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      .add_option("--global-batch", flags.job.global_batch,
                  "Sequences of all ranks in a step (strong scaling); default: what --batch and "
                  "--grad-accum give")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command.add_flag("--recompute", flags.job.recompute,
                   "Compute the transformer layers again in the backward (activation "
                   "checkpointing)");
  command.add_flag(
      "--overlap-gather", flags.job.overlap_gather,
      "zero1, zero2: gather the new parameters beside the next forward, as Megatron-LM "
      "does; without it before, as 'tensora train' does");
  command
      .add_option("--dtype", flags.dtype,
                  "Parameters and activations: bfloat16 (with a float32 copy in the optimizer) "
                  "or float32")
      ->check(CLI::IsMember({"bfloat16", "float32"}))
      ->capture_default_str();
}

}  // namespace

void add_scale(CLI::App& app) {
  auto flags = std::make_shared<ScaleFlags>();
  CLI::App* const command = app.add_subcommand(
      "scale", "Predict speed and memory of a training job on many GPUs, without them");
  add_job_options(*command, *flags);
  command->add_option("--ranks", flags->ranks, "Numbers of ranks (GPUs), separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--parallel", flags->layouts,
                      "Layout, as in 'tensora train': dp, zero1, zero2, zero3, or with tensor and "
                      "pipeline parallel tp=8,pp=12,zero1,interleaved=8 (schedules: gpipe, 1f1b, "
                      "interleaved=V, zero-bubble); may be repeated. Default zero3");
  command->add_flag("--search", flags->search,
                    "List all layouts of each number of ranks, the fastest that fit first");
  command
      ->add_option("--machine", flags->machine,
                   "h100, h200, a100, a file of --calibrate, or here: this host, measured now")
      ->capture_default_str();
  command->add_option("--measured", flags->measured,
                      "RANKS:TOKENS, a known throughput in tokens per second per rank of the first "
                      "layout, to which computation is fitted");
  command->add_option("--calibrate", flags->calibrate,
                      "Measure this host and write FILE.json for --machine; under 'tensora launch' "
                      "also the links between its ranks");
  command->add_flag("--json", flags->json, "Print JSON");
  command->add_option("--svg", flags->svg, "Draw the curves into this file");
  command->footer(
      "Examples:\n"
      "  tensora scale --model llama-3-8b --batch 2 --context 8192 --ranks 8,128 --measured "
      "8:5762\n"
      "  tensora scale --model llama-3-405b --ranks 4096 --parallel tp=8,pp=16,zero1 --context "
      "8192 --grad-accum 32\n"
      "  tensora launch -n 2 -- tensora scale --calibrate host.json");
  command->callback([flags] {
    if (!flags->calibrate.empty()) return measure_here(flags->calibrate);
    predict(*flags);
  });
}

}  // namespace tensora::cli
