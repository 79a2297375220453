#include "tensora/llm/gguf/gguf_export.h"

#include <filesystem>
#include <utility>

#include "tensora/io/atomic_file.h"
#include "tensora/llm/gguf/gguf_format.h"
#include "tensora/llm/hugging_face/tokenizer_keys.h"
#include "tensora/llm/weight_type.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

// `general.file_type`: what most of the tensors are, by the numbers of the format's own tools.
constexpr std::pair<std::string_view, int64_t> kFileTypes[] = {
    {"float32", 0}, {"float16", 1}, {"q4_0", 2},      {"q4_1", 3},    {"q8_0", 7},
    {"q5_0", 8},    {"q5_1", 9},    {"q2_k", 10},     {"q3_k_s", 11}, {"q3_k", 12},
    {"q3_k_m", 12}, {"q3_k_l", 13}, {"q4_k_s", 14},   {"q4_k", 15},   {"q4_k_m", 15},
    {"q5_k_s", 16}, {"q5_k", 17},   {"q5_k_m", 17},   {"q6_k", 18},   {"q2_k_s", 21},
    {"iq4_nl", 25}, {"iq4_xs", 30}, {"bfloat16", 32}, {"mxfp4", 38},
};
constexpr int64_t kQuantizationVersion = 2;

Tensor reshaped(const Tensor& tensor, const Shape& sizes) {
  return make_view(tensor.impl().storage, sizes, contiguous_strides(sizes), tensor.storage_offset(),
                   tensor.dtype());
}

// Stacks of matrices too: rows are what matters.
Tensor converted(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype || tensor.numel() == 0) return tensor.to(dtype);
  if (tensor.dim() <= 1) return (tensor.is_quantized() ? dequantize(tensor) : tensor).to(dtype);
  const Tensor whole = tensor.contiguous();
  const int64_t width = whole.size(-1);
  const Tensor matrix = reshaped(whole, {whole.numel() / width, width});
  return reshaped(convert_weight(matrix, dtype, Device()).data, tensor.sizes());
}

bool is_query_or_key(std::string_view name) {
  return name.find(".attn_q.") != name.npos || name.find(".attn_k.") != name.npos;
}

// The number of heads by which the rows of q or k are permuted; 0: they are left alone.
int64_t heads_to_permute(const ModelFile& file, const std::string& name) {
  if (file.architecture() != "llama" || !file.rope_in_halves() || !is_query_or_key(name)) return 0;
  const bool is_key = name.find(".attn_k.") != std::string::npos;
  return file.metadata().get<int64_t>(is_key ? "llama.attention.head_count_kv"
                                             : "llama.attention.head_count");
}

DType dtype_of_export(const ModelFile& file, const TensorInfo& info, const WeightType& type,
                      int64_t layers) {
  const bool is_number = is_floating_point(info.dtype) || is_quantized(info.dtype);
  if (!is_number) return info.dtype;
  if (info.sizes.size() <= 1) return kFloat32;
  const bool tied = !file.contains("output.weight");
  const DType dtype =
      type.dtype_for({.name = info.name,
                      .sizes = info.sizes,
                      .dtype = info.dtype,
                      .layers = layers,
                      .is_head = info.name == (tied ? "token_embd.weight" : "output.weight")});
  // GGUF's integers have no scale per row.
  check(gguf_type(dtype) != nullptr && !is_integral(dtype), "GGUF has no type for weights of ",
        dtype, "; it can be made while a model is loaded (--quantize)");
  return dtype;
}

void set_types(Metadata& metadata, std::string_view type) {
  bool quantizes = false;
  for (const auto& [name, number] : kFileTypes)
    if (name == type) {
      metadata.set("general.file_type", number);
      quantizes = number > 1 && number != 32;
    }
  if (quantizes) metadata.set("general.quantization_version", kQuantizationVersion);
}

}  // namespace

Tensor interleave_halves(const Tensor& rows, int64_t heads) {
  const int64_t size = rows.size(0);
  check(heads > 0 && size % (2 * heads) == 0, "q or k of ", size, " rows cannot have ", heads,
        " heads that rotate");
  return rows.reshape({heads, 2, size / heads / 2, -1}).transpose(1, 2).reshape(rows.sizes());
}

Tensor separate_halves(const Tensor& rows, int64_t heads) {
  const int64_t size = rows.size(0);
  check(heads > 0 && size % (2 * heads) == 0, "q or k of ", size, " rows cannot have ", heads,
        " heads that rotate");
  return rows.reshape({heads, size / heads / 2, 2, -1}).transpose(1, 2).reshape(rows.sizes());
}

GgufExport plan_gguf_export(const ModelFile& file, const GgufExportOptions& options) {
  const WeightType type(options.type);
  GgufExport result;
  result.metadata = file.metadata();
  for (const char* key : {"split.no", "split.count", "split.tensors.count"})
    result.metadata.erase(key);
  if (!file.folder().empty()) add_tokenizer_keys(file.folder(), options.pre, result.metadata);
  const bool has_type = !type.keeps() || result.metadata.contains("general.file_type");
  const DType dtype =
      file.contains("token_embd.weight") ? file.info("token_embd.weight").dtype : kFloat32;
  set_types(result.metadata, has_type ? std::string_view(type.name()) : name(dtype));
  const int64_t layers = file.metadata().get_or(concat(file.architecture(), ".block_count"), 0);
  for (const TensorInfo& info : file.tensors()) {
    const DType stored = dtype_of_export(file, info, type, layers);
    const int64_t heads = heads_to_permute(file, info.name);
    if (is_quantized(info.dtype) && stored != info.dtype) ++result.requantized;
    result.bytes += static_cast<uint64_t>(bytes_of(stored, info.sizes.numel()));
    const auto load = [file, name = info.name, stored, heads] {
      const Tensor found = file.tensor(name);
      return converted(heads > 0 ? interleave_halves(found, heads) : found, stored);
    };
    result.tensors.push_back({info.name, stored, info.sizes, load});
  }
  return result;
}

void export_gguf(const ModelFile& file, const std::string& path, const GgufExportOptions& options) {
  const GgufExport plan = plan_gguf_export(file, options);
  const std::string folder = std::filesystem::path(path).parent_path();
  io::AtomicFile::remove_abandoned(folder.empty() ? "." : folder);  // by a run that was killed
  write_gguf(path, plan.metadata, plan.tensors, {.progress = [&](uint64_t done) {
               if (options.progress) options.progress(done, plan.bytes);
             }});
}

}  // namespace tensora::llm
