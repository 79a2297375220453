#include "tensora/torch/backend.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include <algorithm>

#include "tensora/base/thread_pool.h"
#include "tensora/llm/file_weights.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/synthetic_weights.h"
#include "tensora/torch/allocator.h"
#include "tensora/torch/errors.h"
#include "tensora/torch/scope.h"

namespace tensora::torch {
namespace {

// Without a context, as long as a static cache for all sequences stays small beside the weights.
constexpr int64_t kDefaultContext = 8192;
constexpr int64_t kContextGrain = 32;
constexpr std::string_view kPackageLevel = "aoti:";

int64_t rounded_up(int64_t tokens) {
  return (tokens + kContextGrain - 1) / kContextGrain * kContextGrain;
}

/// The file of the level "aoti:FILE"; empty: another level.
std::string package_of(const llm::BackendOptions& options) {
  return options.level.starts_with(kPackageLevel) ? options.level.substr(kPackageLevel.size()) : "";
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string list_of_kernels() {
  std::string list;
  for (const char* kernel : kHybridKernels)
    list += (list.empty() ? "" : ", ") + std::string(kernel);
  return list;
}

/// The settings of BackendOptions, checked.
DecoderOptions settings_of(const llm::BackendOptions& options, bool hybrid) {
  DecoderOptions result{.dtype = {},
                        .hybrid = hybrid,
                        .kernels = {std::begin(kHybridKernels), std::end(kHybridKernels)},
                        .package = package_of(options),
                        .block_size = options.engine.block_size,
                        .cache_dtype = options.engine.cache_dtype.value_or(kFloat32)};
  for (const auto& [key, value] : options.settings) {
    if (key == "allocator") {
      check(value == "torch" || value == "tensora", hybrid ? "hybrid" : "libtorch",
            ": the setting allocator must be torch or tensora, got '", value, "'");
      result.shares_allocator = value == "tensora";
    } else if (key == "dtype" && !hybrid) {
      const bool known = value == "float32" || value == "float16" || value == "bfloat16";
      check(known, "libtorch: the setting dtype must be float32, float16 or bfloat16, got '", value,
            "'");
      result.dtype = value == "float32" ? kFloat32 : value == "float16" ? kFloat16 : kBFloat16;
    } else if (key == "describe" && !hybrid) {
      check(!value.empty(), "libtorch: the setting describe must name a file");
      result.describe = value;
    } else if (key == "kernels" && hybrid) {
      result.kernels = value == "none" ? std::vector<std::string>() : words_of(value);
      for (const std::string& kernel : result.kernels)
        check(std::ranges::find(kHybridKernels, kernel) != std::end(kHybridKernels),
              "hybrid: the setting kernels is a list of ", list_of_kernels(), ", or none, got '",
              kernel, "'");
    } else {
      fail(hybrid ? "hybrid: the settings are allocator and kernels"
                  : "libtorch: the settings are allocator, describe and dtype",
           ", got '", key, "'");
    }
  }
  return result;
}

}  // namespace

Backend::Backend(Kind kind, Device device) : EngineBackend(device), kind_(kind) {
  check_torch_device(device);
  at::set_num_threads(get_num_threads());
  // float32 means float32, as in Tensora.
  at::globalContext().setFloat32MatmulPrecision("highest");
}

std::string Backend::version() { return TORCH_VERSION; }

void Backend::check_options(const llm::BackendOptions& options) const {
  llm::BackendOptions plain = options;
  plain.settings.clear();
  if (options.level.starts_with("aoti")) {
    check(kind_ == Kind::libtorch,
          "hybrid: AOTInductor packages have LibTorch's kernels only; use "
          "the framework libtorch");
    check(device().is_cpu(), label(),
          ": AOTInductor packages run on the CPU only: which block of the KV "
          "cache belongs to a sequence is not known to the host on ",
          device(), "; use the level graph");
    check(!package_of(options).empty(), label(),
          ": the level aoti needs a package, as in aoti:FILE.pt2; tools/export_aoti.py makes one");
    plain.level.clear();
  }
  EngineBackend::check_options(plain);
  settings_of(options, kind_ == Kind::hybrid);
  check(device().is_cpu() || !settings_of(options, kind_ == Kind::hybrid).shares_allocator, label(),
        ": LibTorch can take memory from Tensora's allocator on the CPU only");
  check(!options.engine.batch_invariant, label(),
        ": batch_invariant needs Tensora's own kernels; use the framework native");
  const auto dtype = options.engine.cache_dtype;
  check(kind_ == Kind::hybrid || !dtype || *dtype == kFloat32 || *dtype == kFloat16 ||
            *dtype == kBFloat16,
        label(), ": the KV cache must be float32, float16 or bfloat16, got ",
        dtype.value_or(kFloat32));
}

// Note [A static cache in blocks]
// LibTorch's attention reads the keys of a sequence from one piece of memory. Tensora's engine
// gives out blocks: with blocks as long as the context every sequence has one, and the cache is
// what PyTorch calls a static cache. Hybrid keeps small blocks, which Tensora's kernel reads as
// fast.
llm::BackendOptions Backend::adapted(const llm::BackendOptions& options,
                                     const llm::ModelConfig& config,
                                     const llm::WeightSource& weights) const {
  llm::BackendOptions chosen = options;
  check_options(options);
  if (kind_ == Kind::hybrid) return chosen;
  llm::EngineOptions& engine = chosen.engine;
  if (engine.context == 0)
    engine.context = std::min(kDefaultContext, std::max<int64_t>(1, config.context_length));
  // A package wants blocks that are longer than any sequence.
  const DecoderOptions how = settings_of(options, false);
  const bool compiled = !how.package.empty() || !how.describe.empty();
  engine.block_size = rounded_up(engine.context + (compiled ? 1 : 0));
  engine.share_prefixes = false;
  // LibTorch's attention wants one dtype for queries and keys.
  if (!engine.cache_dtype) engine.cache_dtype = Decoder::dtype_for(weights, how);
  return chosen;
}

void Backend::load_model(const std::string& path, const llm::BackendOptions& options) {
  const llm::ModelFile file = llm::ModelFile::open(llm::resolve_model(path));
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  const llm::FileWeights weights(file, config, {.device = device(), .quantize = options.quantize});
  EngineBackend::load_model(path, adapted(options, config, weights));
}

std::shared_ptr<const Decoder> Backend::make(const llm::ModelConfig& config,
                                             llm::WeightSource& weights,
                                             const llm::BackendOptions& options) const {
  const llm::Architecture& architecture = llm::find_architecture(config.architecture);
  check(architecture.make == llm::make_decoder, label(), ": the architecture ", config.architecture,
        " is not one of the decoders that it can compute");
  DecoderOptions how = settings_of(options, kind_ == Kind::hybrid);
  const bool is_draft = !decoder_.expired();  // a draft model comes second
  if (is_draft) how.package = how.describe = "";
  if (how.shares_allocator) share_allocator();
  auto decoder = translated(
      [&] { return std::make_shared<const Decoder>(config, architecture.design, weights, how); });
  if (!is_draft) decoder_ = decoder;
  return decoder;
}

std::shared_ptr<const llm::Model> Backend::make_model(const llm::ModelFile& file,
                                                      const llm::LoadOptions& options) const {
  const llm::ModelConfig config = llm::ModelConfig::from(file);
  llm::FileWeights weights(file, config, options);
  auto model = make(config, weights, this->options());
  weights.check_nothing_is_left();
  return model;
}

void Backend::load_synthetic(const std::string& shape, const std::string& type,
                             const llm::BackendOptions& options) {
  cleanup();
  const llm::RegistryEntry& entry = llm::find_registered(shape);
  const llm::ModelConfig config = entry.config();
  llm::SyntheticWeights weights(config, llm::WeightType(type), device(),
                                {.tied = entry.details.tied,
                                 .fused = entry.architecture == "phi3",
                                 .positions = options.engine.context});
  const llm::BackendOptions chosen = adapted(options, config, weights);
  const auto decoder = make(config, weights, chosen);
  llm::ModelSummary summary = llm::summary_of(shape, type, *decoder);
  use_model(decoder, std::move(summary), chosen);
}

std::unique_ptr<llm::SequenceSession> Backend::open_sequences(const llm::SessionOptions& options) {
  llm::SessionOptions chosen = options;
  if (kind_ == Kind::libtorch) chosen.block_size = rounded_up(options.context);
  if (!package_of(this->options()).empty()) {
    const llm::EngineOptions& engine = this->options().engine;
    const DType cache = options.cache_dtype.value_or(*engine.cache_dtype);
    check(options.context < engine.block_size, label(),
          ": the package was made for contexts of up to ", engine.block_size - 1, " tokens, got ",
          options.context);
    check(cache == *engine.cache_dtype, label(), ": the package was made for a KV cache of ",
          *engine.cache_dtype, ", got ", cache);
    chosen.block_size = engine.block_size;
  }
  return EngineBackend::open_sequences(chosen);
}

std::shared_ptr<const llm::LoraAdapter> Backend::load_adapter(const std::string& path) {
  return FrameworkBackend::load_adapter(path);
}

llm::ExecutionReport Backend::report() const {
  llm::ExecutionReport report = EngineBackend::report();
  report.version = version();
  if (kind_ == Kind::libtorch) report.kernels = {};  // those are Tensora's
  if (const auto decoder = decoder_.lock()) {
    // Of weights that LibTorch multiplies by as they are, the file's.
    if (kind_ == Kind::libtorch && !(decoder->keeps_int8() && !decoder->is_dequantized()))
      report.precision = concat(decoder->activation_dtype());
    report.dequantized = decoder->is_dequantized();
    report.notes = decoder->notes();
    if (!package_of(options()).empty()) report.level = "aoti";
  }
  const TorchMemory memory = torch_memory(device());
  report.workspace_bytes = memory.used;
  report.framework_bytes = device().is_cpu() ? shared_bytes() : memory.reserved;
  return report;
}

void Backend::cleanup() noexcept {
  EngineBackend::cleanup();
  decoder_.reset();
  empty_torch_cache(device());
}

}  // namespace tensora::torch
