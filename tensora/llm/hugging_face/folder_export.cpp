#include "tensora/llm/hugging_face/folder_export.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tensora/io/atomic_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/gguf/gguf_export.h"
#include "tensora/llm/hugging_face/config_json.h"
#include "tensora/llm/hugging_face/tensor_names.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;

// A tensor of the folder, made when it is its turn.
struct Target {
  std::string name, source;
  int64_t expert = -1;
  uint64_t bytes = 0;
};

DType matrix_dtype(const FolderExportOptions& options, DType found) {
  if (options.type.empty()) return is_quantized(found) ? kFloat16 : found;
  for (const auto& [name, dtype] :
       {std::pair{"f32", kFloat32}, {"f16", kFloat16}, {"bf16", kBFloat16}})
    if (options.type == name || options.type == tensora::name(dtype)) return dtype;
  fail("a Hugging Face folder is written as f32, f16 or bf16, got '", options.type, "'");
}

bool is_rope(std::string_view name) { return name.starts_with("rope_f"); }

std::vector<Target> targets_of(const ModelFile& file, const FolderExportOptions& options) {
  std::vector<Target> targets;
  for (const TensorInfo& info : file.tensors()) {
    if (is_rope(info.name)) continue;  // numbers of config.json
    const bool is_stack = info.sizes.size() == 3;
    const int64_t count = is_stack ? info.sizes[0] : 1;
    const DType dtype = info.sizes.size() <= 1 ? kFloat32 : matrix_dtype(options, info.dtype);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t expert = is_stack ? i : -1;
      const auto name = hugging_face_name(file.architecture(), info.name, expert);
      check(name.has_value(), "the tensor '", info.name, "' has no name in Hugging Face's ",
            file.architecture(), " models");
      targets.push_back({*name, info.name, expert,
                         static_cast<uint64_t>(bytes_of(dtype, info.sizes.numel() / count))});
    }
  }
  return targets;
}

Tensor made(const ModelFile& file, const Target& target, const FolderExportOptions& options) {
  Tensor tensor = file.tensor(target.source);
  const DType dtype = tensor.dim() <= 1 ? kFloat32 : matrix_dtype(options, tensor.dtype());
  if (target.expert >= 0) tensor = tensor[target.expert];
  if (tensor.is_quantized()) tensor = dequantize(tensor);
  if (file.architecture() == "llama" && !file.rope_in_halves()) {
    const bool is_query = target.source.find(".attn_q.") != std::string::npos;
    const bool is_key = target.source.find(".attn_k.") != std::string::npos;
    const Metadata& metadata = file.metadata();
    const int64_t heads = metadata.get<int64_t>("llama.attention.head_count");
    if (is_query) tensor = separate_halves(tensor, heads);
    if (is_key)
      tensor = separate_halves(tensor, metadata.get_or("llama.attention.head_count_kv", heads));
  }
  tensor = tensor.to(dtype);
  const bool is_norm = target.source.ends_with("norm.weight");
  return is_norm && file.architecture().starts_with("gemma") ? tensor - 1 : tensor;
}

void write_json(const std::string& path, const Json& json) {
  io::AtomicFile file(path);
  file.write(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  file.commit();
}

std::string shard_name(size_t shard, size_t count) {
  if (count == 1) return "model.safetensors";
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
  return text;
}

void write_tensors(const ModelFile& file, const std::string& folder,
                   const FolderExportOptions& options) {
  std::vector<std::vector<Target>> shards(1);
  uint64_t in_shard = 0, total = 0;
  for (Target& target : targets_of(file, options)) {
    if (in_shard > 0 && in_shard + target.bytes > options.shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    in_shard += target.bytes;
    total += target.bytes;
    shards.back().push_back(std::move(target));
  }
  uint64_t done = 0;
  Json map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    StateDict tensors;
    for (const Target& target : shards[i]) {
      tensors.insert(target.name, made(file, target, options));
      map[target.name] = shard_name(i, shards.size());
      done += target.bytes;
      if (options.progress) options.progress(done, total);
    }
    io::save_safetensors(tensors, folder + "/" + shard_name(i, shards.size()), {{"format", "pt"}});
  }
  const std::string index = folder + "/model.safetensors.index.json";
  if (shards.size() > 1)
    write_json(index, {{"metadata", {{"total_size", total}}}, {"weight_map", map}});
  else
    std::filesystem::remove(index);  // of an earlier export: it would be believed
}

// The folder of an export, with those above it that have to be made. Unless the export is finished,
// what it wrote goes again, and so do the folders that were not there before.
class NewFolder {
 public:
  explicit NewFolder(const std::string& folder) : folder_(folder) {
    std::error_code error;
    std::filesystem::path above = std::filesystem::absolute(folder_).lexically_normal();
    if (above.filename().empty()) above = above.parent_path();  // "name/"
    for (; !std::filesystem::exists(above, error); above = above.parent_path())
      made_.push_back(above);
    std::filesystem::create_directories(folder_, error);
    check(!error, "the folder '", folder, "' cannot be made: ", error.message());
  }
  ~NewFolder() {
    if (finished_ || made_.empty()) return;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".safetensors") || name.ends_with(".json"))
        std::filesystem::remove(entry.path(), ignored);
    }
    for (const auto& folder : made_) std::filesystem::remove(folder, ignored);  // where empty
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  void finish() { finished_ = true; }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // the innermost first
  bool finished_ = false;
};

}  // namespace

void export_folder(const ModelFile& file, const std::string& folder,
                   const FolderExportOptions& options) {
  called_as("export_folder", [&] {
    const Json config =
        config_json(file, matrix_dtype(options, file.info("token_embd.weight").dtype));
    // What cannot be written is found out before anything is.
    const bool has_tokenizer = file.metadata().contains("tokenizer.ggml.tokens");
    const Json tokenizer = has_tokenizer ? tokenizer_json(file.metadata()) : Json();
    (void)targets_of(file, options);
    NewFolder made(folder);
    write_tensors(file, folder, options);
    if (has_tokenizer) {
      write_json(folder + "/tokenizer.json", tokenizer);
      write_json(folder + "/tokenizer_config.json", tokenizer_config_json(file.metadata()));
    }
    write_json(folder + "/generation_config.json", generation_config_json(file.metadata()));
    write_json(folder + "/config.json", config);
    made.finish();
  });
}

}  // namespace tensora::llm
