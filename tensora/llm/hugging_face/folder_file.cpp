#include "tensora/llm/hugging_face/folder_file.h"

#include <cstring>
#include <filesystem>

#include "tensora/io/mapped_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/hugging_face/config_keys.h"
#include "tensora/llm/hugging_face/json_object.h"
#include "tensora/llm/hugging_face/tensor_names.h"
#include "tensora/llm/model_file_contents.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

// A tensor of the folder, or several of them that GGUF has as one.
struct Source {
  std::vector<Tensor> parts = {};  // the matrices of experts, in order
  bool is_stack = false;
  double plus = 0;  // gemma's norms are stored without their 1
};

struct FolderContents : ModelFile::Contents {
  std::vector<Source> sources;  // of each tensor

  Tensor load(size_t place) const override {
    const Source& source = sources[place];
    Tensor tensor = source.is_stack ? stack(source.parts) : source.parts[0];
    tensor = tensor.to(tensors[place].dtype);
    return source.plus != 0 ? tensor + source.plus : tensor;
  }

  void add_tensor(const std::string& name, Source source, DType dtype) {
    Shape sizes = source.parts[0].sizes();
    uint64_t bytes = 0;
    for (const Tensor& part : source.parts) bytes += part.nbytes();
    if (source.is_stack) {
      Shape stacked{static_cast<int64_t>(source.parts.size())};
      for (int64_t size : sizes) stacked.push_back(size);
      sizes = stacked;
    }
    add({name, dtype, sizes, bytes});
    sources.push_back(std::move(source));
  }
};

// All tensors of the folder, as views of the mapped files.
StateDict read_tensors(const std::string& folder) {
  const auto index = JsonObject::read_if_there(folder + "/model.safetensors.index.json");
  if (!index) return io::load_safetensors(folder + "/model.safetensors");
  const auto map = index->object("weight_map");
  check(map.has_value(), "model.safetensors.index.json: there is no 'weight_map'");
  std::map<std::string, StateDict> files;
  StateDict tensors;
  for (const auto& [name, value] : map->json().items()) {
    const std::string file = map->text(name);
    check(file.find('/') == std::string::npos && file.ends_with(".safetensors"),
          "model.safetensors.index.json: '", file, "' is not the name of a file in the folder");
    if (!files.contains(file)) files.emplace(file, io::load_safetensors(folder + "/" + file));
    const Tensor* tensor = files.at(file).find(name);
    check(tensor != nullptr, "model.safetensors.index.json: '", file, "' has no tensor '", name,
          "'");
    tensors.insert(name, *tensor);
  }
  return tensors;
}

// The name in a folder that has the language model alone; nothing for parts that are not of it.
std::optional<std::string> plain_name(std::string_view name) {
  for (std::string_view other : {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                 "model.multi_modal_projector."})
    if (name.starts_with(other)) return {};
  if (name.ends_with(".rotary_emb.inv_freq")) return {};  // old files: known without them
  constexpr std::string_view kOuter = "language_model.", kInner = "model.language_model.";
  if (name.starts_with(kInner)) return concat("model.", name.substr(kInner.size()));
  return std::string(name.starts_with(kOuter) ? name.substr(kOuter.size()) : name);
}

void add_rope(FolderContents& contents, const std::string& name,
              const std::vector<double>& values) {
  if (values.empty()) return;
  contents.add_tensor(name, {.parts = {tensor(values, {.dtype = kFloat32})}}, kFloat32);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

// A head beside the embedding that it should be is used if it differs, as transformers does.
bool is_tied(const FolderConfig& config, const StateDict& tensors) {
  const Tensor *head = nullptr, *embedding = nullptr;
  for (const auto& [original, tensor] : tensors) {
    const std::optional<std::string> name = plain_name(original);
    if (name == "lm_head.weight") head = &tensor;
    if (name == "model.embed_tokens.weight") embedding = &tensor;
  }
  return config.tied && !(head && embedding && !same_bytes(*head, *embedding));
}

void add_tensors(FolderContents& contents, const FolderConfig& config, const StateDict& tensors) {
  const bool tied = is_tied(config, tensors);
  std::map<std::string, std::map<int64_t, Tensor>> stacks;
  std::vector<std::string> order;  // of the names of stacks
  for (const auto& [original, tensor] : tensors) {
    const std::optional<std::string> name = plain_name(original);
    if (!name || (tied && *name == "lm_head.weight")) continue;
    const auto found = gguf_name(config.architecture, *name);
    check(found.has_value(), "the tensor '", original, "' is not known to be part of a ",
          config.architecture, " model");
    check(is_floating_point(tensor.dtype()) && dtype_info(tensor.dtype()).computes, "the tensor '",
          original, "' is of ", tensor.dtype(), ", which is not supported");
    if (found->expert >= 0) {
      if (!stacks.contains(found->name)) order.push_back(found->name);
      stacks[found->name].emplace(found->expert, tensor);
      continue;
    }
    // GGUF has vectors, and the matrix that chooses experts, in float32.
    const bool exact = tensor.dim() <= 1 || found->name.find("ffn_gate_inp") != std::string::npos;
    const bool is_norm = found->name.ends_with("norm.weight");
    const bool without_one = is_norm && config.architecture.starts_with("gemma");
    contents.add_tensor(found->name, {.parts = {tensor}, .plus = without_one ? 1.0 : 0.0},
                        exact ? kFloat32 : tensor.dtype());
  }
  for (const std::string& name : order) {
    Source source{.is_stack = true};
    for (const auto& [expert, tensor] : stacks[name]) {
      check(expert == static_cast<int64_t>(source.parts.size()), "'", name, "' lacks expert ",
            source.parts.size());
      check(tensor.sizes() == stacks[name].at(0).sizes() &&
                tensor.dtype() == stacks[name].at(0).dtype(),
            "the experts of '", name, "' differ in shape or dtype");
      source.parts.push_back(tensor);
    }
    const DType dtype = source.parts[0].dtype();
    contents.add_tensor(name, std::move(source), dtype);
  }
  check(config.tied || contents.places.contains("output.weight"),
        "there is no 'lm_head.weight', though 'tie_word_embeddings' in config.json is false");
}

}  // namespace

std::shared_ptr<const ModelFile::Contents> open_hugging_face(const std::string& folder) {
  return io::reading("model folder", folder, [&] {
    FolderConfig config = read_folder_config(folder);
    auto contents = std::make_shared<FolderContents>();
    contents->path = contents->folder = folder;
    contents->architecture = config.architecture;
    add_tensors(*contents, config, read_tensors(folder));
    // transformers ignores biases that it does not expect, and makes up those that are missing.
    check_biases(contents->tensors, config.biases);
    add_rope(*contents, "rope_freqs.weight", config.rope_freqs);
    add_rope(*contents, "rope_factors_long.weight", config.rope_factors_long);
    add_rope(*contents, "rope_factors_short.weight", config.rope_factors_short);
    contents->metadata = std::move(config.metadata);
    contents->ignored_fields = std::move(config.ignored);
    return contents;
  });
}

}  // namespace tensora::llm
