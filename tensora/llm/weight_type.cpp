#include "tensora/llm/weight_type.h"

#include <algorithm>

#include "tensora/core/text.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

namespace {

/// What a mix gives to the tensors on which errors weigh more.
struct Mix {
  std::string_view name;
  DType base, value, down, output;  // `value` and `down` in the layers that `more` says
  bool everywhere;                  // they get it in all layers
};
constexpr Mix mixes[] = {
    {"q2_k_s", kQ2_K, kQ4_K, kQ4_K, kQ2_K, false}, {"q3_k_s", kQ3_K, kQ3_K, kQ3_K, kQ3_K, true},
    {"q3_k_m", kQ3_K, kQ5_K, kQ4_K, kQ4_K, true},  {"q3_k_l", kQ3_K, kQ5_K, kQ5_K, kQ5_K, true},
    {"q4_k_s", kQ4_K, kQ5_K, kQ5_K, kQ4_K, false}, {"q4_k_m", kQ4_K, kQ6_K, kQ6_K, kQ4_K, false},
    {"q5_k_s", kQ5_K, kQ5_K, kQ5_K, kQ5_K, true},  {"q5_k_m", kQ5_K, kQ6_K, kQ6_K, kQ5_K, false},
};

const Mix* find_mix(std::string_view name) {
  const auto found = std::find_if(std::begin(mixes), std::end(mixes),
                                  [&](const Mix& mix) { return mix.name == name; });
  return found == std::end(mixes) ? nullptr : found;
}

constexpr DType plain[] = {kFloat32, kFloat16, kBFloat16, kQ4_0,  kQ4_1, kQ5_0,
                           kQ5_1,    kQ8_0,    kQ2_K,     kQ3_K,  kQ4_K, kQ5_K,
                           kQ6_K,    kIQ4_NL,  kIQ4_XS,   kMXFP4, kNF4};

/// The number in "blk.12.attn_v.weight"; -1 elsewhere.
int64_t layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  int64_t number = 0;
  for (size_t i = 4; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i)
    number = number * 10 + (name[i] - '0');
  return number;
}

/// The first and last eighths of the layers, and every third between them.
bool is_weighty(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

DType mixed(const Mix& mix, const WeightPlace& place) {
  const std::string_view name = place.name;
  if (mix.everywhere || is_weighty(layer_of(name), place.layers)) {
    if (name.find("attn_v.") != name.npos) return mix.value;
    if (name.find("ffn_down") != name.npos) return mix.down;
  }
  // In the 70B models eight heads share each value head, so that its bits cost little.
  if (name.find("attn_v.") != name.npos && place.layers == 80 && dtype_info(mix.base).bits < 5)
    return kQ5_K;
  if (name.find("attn_output.") != name.npos) return mix.output;
  return mix.base;
}

/// A type for rows that are not whole blocks of `dtype`.
DType with_fitting_blocks(DType dtype, int64_t width) {
  const auto fits = [&](DType type) { return width % dtype_info(type).block_numbers == 0; };
  if (fits(dtype)) return dtype;
  const DType smaller = dtype == kQ6_K   ? kQ8_0
                        : dtype == kQ5_K ? kQ5_1
                        : dtype == kQ4_K ? kQ5_0
                                         : kIQ4_NL;
  return fits(smaller) ? smaller : kFloat16;
}

Weight scaled_rows(const Tensor& rows, DType dtype) {
  const double most = dtype == kInt8 ? 127 : 448;
  const Tensor wide = Weight{rows}.dequantized();
  const Tensor scale = wide.abs().amax({-1}) / most;
  // A row of zeros has no largest number to scale by.
  const Tensor unit = wide / where(scale > 0, scale, ones_like(scale)).unsqueeze(-1);
  return {.data = (dtype == kInt8 ? round(unit) : unit).to(dtype), .scale = scale};
}

Tensor converted_rows(const Tensor& rows, DType dtype) {
  const Tensor wide = rows.is_quantized() ? dequantize(rows) : rows;
  return is_quantized(dtype) ? quantize(wide.to(kFloat32), dtype) : wide.to(dtype);
}

}  // namespace

std::vector<std::string> WeightType::names() {
  std::vector<std::string> result;
  for (DType dtype : plain) result.emplace_back(tensora::name(dtype));
  result.insert(result.end(), {"int8", "fp8"});
  for (const Mix& mix : mixes) result.emplace_back(mix.name);
  return result;
}

WeightType::WeightType(std::string_view name) : name_(name) {
  for (char& letter : name_)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  if (name_ == "f16") name_ = "float16";
  if (name_ == "bf16") name_ = "bfloat16";
  if (name_ == "f32") name_ = "float32";
  if (name_.empty() || find_mix(name_)) return;
  if (name_ == "int8" || name_ == "fp8") {
    base_ = name_ == "int8" ? kInt8 : kFloat8E4M3;
    return;
  }
  for (DType dtype : plain)
    if (name_ == tensora::name(dtype)) {
      base_ = dtype;
      return;
    }
  std::string known;
  for (const std::string& each : names()) known += (known.empty() ? "" : ", ") + each;
  fail("there is no type of weights '", name, "'; expected one of ", known);
}

DType WeightType::dtype_for(const WeightPlace& place) const {
  // A router decides by small differences, and is small.
  if (keeps() || place.name.find("ffn_gate_inp") != std::string::npos) return place.dtype;
  const Mix* mix = find_mix(name_);
  DType dtype = mix ? mixed(*mix, place) : base_;
  // Errors of the head go straight into the logits.
  if (place.is_head && is_quantized(dtype) && dtype_info(dtype).bits < 6) dtype = kQ6_K;
  return with_fitting_blocks(dtype, place.sizes.back());
}

Weight convert_weight(const Tensor& weight, DType dtype, Device device) {
  const int64_t count = weight.size(0), width = weight.size(1);
  const bool scaled = dtype == kInt8 || dtype == kFloat8E4M3;
  Weight result{.data = empty({count, width}, {.dtype = dtype, .device = device})};
  if (scaled) result.scale = empty({count}, {.dtype = kFloat32, .device = device});
  constexpr int64_t kNumbersAtOnce = 16 << 20;
  const int64_t step = std::max<int64_t>(1, kNumbersAtOnce / std::max<int64_t>(1, width));
  for (int64_t first = 0; first < count; first += step) {
    const int64_t rows = std::min(step, count - first);
    const Tensor part = weight.narrow(0, first, rows).to(device);
    if (!scaled) {
      result.data.narrow(0, first, rows).copy_(converted_rows(part, dtype));
      continue;
    }
    const Weight made = scaled_rows(part, dtype);
    result.data.narrow(0, first, rows).copy_(made.data);
    result.scale.narrow(0, first, rows).copy_(made.scale);
  }
  return result;
}

}  // namespace tensora::llm
