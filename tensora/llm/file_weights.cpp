#include "tensora/llm/file_weights.h"

#include "tensora/ops.h"

namespace tensora::llm {

namespace {

/// A stack of matrices as one, below one another.
Tensor as_matrix(const Tensor& stack) {
  if (stack.dim() == 2) return stack;
  const Shape sizes{stack.numel() / stack.size(-1), stack.size(-1)};
  return make_view(stack.impl().storage, sizes, contiguous_strides(sizes), stack.storage_offset(),
                   stack.dtype());
}

/// What quant_linear multiplies by without a conversion.
bool is_multiplied(DType dtype) {
  return is_quantized(dtype) || dtype == kFloat32 || dtype == kFloat16 || dtype == kBFloat16;
}

}  // namespace

FileWeights::FileWeights(const ModelFile& file, const ModelConfig& config,
                         const LoadOptions& options)
    : WeightSource(options.device, options.positions),
      file_(file),
      type_(options.quantize),
      layers_(config.layers),
      progress_(options.progress) {}

bool FileWeights::contains(const std::string& name) const {
  asked_.insert(name);
  return file_.contains(name);
}

void FileWeights::expect(const std::string& name, const Shape& sizes) const {
  check(contains(name), file_.path(), ": the model has no tensor ", name);
  const TensorInfo& info = file_.info(name);
  check(info.sizes == sizes, file_.path(), ": ", name, " must have shape ", sizes,
        " by the model's numbers, got ", info.sizes);
  check(is_floating_point(info.dtype) || is_quantized(info.dtype), file_.path(), ": ", name,
        " must hold floating-point or quantized numbers, got ", info.dtype);
}

DType FileWeights::matrix_dtype(const std::string& name) const {
  check(contains(name), file_.path(), ": the model has no tensor ", name);
  const TensorInfo& info = file_.info(name);
  const bool tied = !file_.contains("output.weight");
  const DType dtype =
      type_.dtype_for({.name = name,
                       .sizes = info.sizes,
                       .dtype = info.dtype,
                       .layers = layers_,
                       .is_head = name == (tied ? "token_embd.weight" : "output.weight")});
  return type_.keeps() && !is_multiplied(dtype) ? kFloat32 : dtype;
}

Weight FileWeights::matrix(const std::string& name, const Shape&) {
  const Tensor found = as_matrix(file_.tensor(name));
  const DType dtype = matrix_dtype(name);
  Weight result =
      dtype == found.dtype() ? Weight{found}.to(device()) : convert_weight(found, dtype, device());
  report(name);
  return result;
}

Tensor FileWeights::vector(const std::string& name, const Shape&) {
  const Tensor found = file_.tensor(name);
  Tensor result = Weight{found}.dequantized().to(device());
  report(name);
  return result;
}

void FileWeights::check_nothing_is_left() const {
  if (!file_.folder().empty()) return;
  for (const TensorInfo& info : file_.tensors()) {
    // Frequencies belong to the config, which has read them.
    const bool is_known = asked_.contains(info.name) || info.name.starts_with("rope_") ||
                          info.name.ends_with(".attn_rot_embd.weight");
    check(is_known, file_.path(), ": the tensor ", info.name, " has no place in a model of '",
          file_.architecture(), "'");
  }
}

void FileWeights::report(const std::string& name) {
  if (!progress_) return;
  done_ += static_cast<int64_t>(file_.info(name).bytes);
  progress_(done_, static_cast<int64_t>(file_.bytes()));
}

}  // namespace tensora::llm
