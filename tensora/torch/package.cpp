#include "tensora/torch/package.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tensora/torch/bridge.h"
#include "tensora/torch/errors.h"

namespace tensora::torch {
namespace {

using nlohmann::json;

// A package is linked with libtorch.so, which lies beside libtorch_cpu.so and which nothing else
// needs. Once it is open, it is found by its name.
void open_torch() {
  Dl_info info;
  check(dladdr(reinterpret_cast<void*>(&at::globalContext), &info) != 0 && info.dli_fname,
        "LibTorch: the folder of its libraries is not known");
  const std::string path = info.dli_fname;
  const std::string library = path.substr(0, path.rfind('/')) + "/libtorch.so";
  check(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr,
        "LibTorch: the library cannot be opened: ", dlerror());
}

void check_same(const std::string& path, const json& expected, const std::string& text) {
  const json found = json::parse(text, nullptr, false);
  check(found.is_object(), "libtorch: '", path, "' is no package of tools/export_aoti.py");
  for (const auto& [key, value] : expected.items()) {
    const json other = found.value(key, json());
    const bool is_option = key == "block_size" || key == "cache_dtype";
    check(other == value, "libtorch: the package '", path, "' was made for ",
          is_option ? "other options" : "another model", ": its ", key, " is ",
          other.dump().substr(0, 100), ", expected ", value.dump().substr(0, 100),
          is_option ? "; give the context (-c) and --cache-type that it was described with" : "");
  }
}

}  // namespace

class Package::Loaded : public ::torch::inductor::AOTIModelPackageLoader {
 public:
  using AOTIModelPackageLoader::AOTIModelPackageLoader;
};

Package::Package(const std::string& path, const json& description, Constants constants)
    : path_(path), constants_(std::move(constants)) {
  check(access(path.c_str(), R_OK) == 0, "libtorch: the package '", path,
        "' cannot be read; tools/export_aoti.py makes one");
  open_torch();
  try {
    loaded_ = std::make_unique<Loaded>(path);
  } catch (const c10::Error& error) {
    fail("libtorch: the package '", path, "' cannot be loaded: ", error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail("libtorch: the package '", path, "' cannot be loaded: ", error.what());
  }
  const auto metadata = loaded_->get_metadata();
  const auto entry = [&](const char* name) {
    const auto found = metadata.find(name);
    return found == metadata.end() ? std::string() : found->second;
  };
  check_same(path, description, entry("tensora_description"));
  sequences_ = std::atoll(entry("tensora_sequences").c_str());
  check(sequences_ > 0, "libtorch: the package '", path, "' lacks its number of sequences");
  Constants wanted;
  for (const std::string& name : loaded_->get_constant_fqns()) {
    const auto found = constants_.find(name);
    check(found != constants_.end(), "libtorch: the package '", path, "' asks for the tensor '",
          name, "', which the model does not have");
    wanted[name] = found->second;
  }
  for (const auto& [name, tensor] : constants_)
    check(wanted.contains(name), "libtorch: the package '", path, "' does not use the tensor '",
          name, "': it was compiled for fixed weights");
  loaded_->load_constants(wanted, false, true, true);
}

Package::~Package() = default;

// Blocks that follow one another are one tensor, and nothing has to be copied. On the CPU, where
// packages run, the host may read the batch.
bool Package::fits(const Step& step) const {
  const llm::Batch& batch = step.batch();
  if (!step.is_decode() || step.sequences() != sequences_ || batch.block_table.size(1) != 1)
    return false;
  const int64_t block = step.cache().block_size();
  const auto* table = static_cast<const int32_t*>(batch.block_table.data_ptr());
  const auto* slots = static_cast<const int64_t*>(batch.slots.data_ptr());
  const auto* positions = static_cast<const int64_t*>(batch.positions.data_ptr());
  int64_t longest = 0;
  for (int64_t s = 0; s < sequences_; ++s) {
    if (slots[s] != table[s] * block + positions[s]) return false;
    longest = std::max(longest, positions[s] + 1);
  }
  const auto [least, most] = std::minmax_element(table, table + sequences_);
  return *most - *least == sequences_ - 1 && longest > 1 && longest < block;
}

at::Tensor Package::logits(Step& step) const {
  const llm::Batch& batch = step.batch();
  const auto* lengths = static_cast<const int32_t*>(batch.lengths.data_ptr());
  const int64_t longest = *std::max_element(lengths, lengths + sequences_);
  std::vector<at::Tensor> inputs{to_torch(batch.tokens), to_torch(batch.positions)};
  // The compiled code takes the sequences in the order of their blocks.
  const at::Tensor table = to_torch(batch.block_table).select(1, 0), order = table.argsort();
  const int64_t first = table.min().item<int32_t>();
  if (sequences_ > 1)
    for (at::Tensor& input : inputs) input = input.index_select(0, order);
  const llm::PagedCache& cache = step.cache();
  inputs.reserve(2 + 2 * cache.keys.size());
  for (size_t layer = 0; layer < cache.keys.size(); ++layer)
    for (const Tensor& part : {cache.keys[layer], cache.values[layer]})
      inputs.push_back(to_torch(part).narrow(0, first, sequences_).narrow(2, 0, longest));
  at::Tensor logits = loaded_->run(inputs).at(0);
  if (sequences_ > 1) logits = logits.index_select(0, order.argsort());
  ++computed_;
  return batch.logit_rows.defined() ? logits.index_select(0, to_torch(batch.logit_rows)) : logits;
}

std::string Package::note() const {
  return concat("the package '", path_, "' computed ", computed_.load(), " of ", computed_ + other_,
                " decode steps; it computes those of ", sequences_,
                sequences_ == 1 ? " sequence" : " sequences at once", ", and prefill is eager");
}

}  // namespace tensora::torch
