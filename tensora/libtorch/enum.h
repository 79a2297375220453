#pragma once

// LibTorch's enumerators: `reduction(torch::kSum)`, `mode(torch::kBilinear)`. Each is an object of
// a type of its own whose value is the text that Tensora's functions take.

#include <string_view>
#include <variant>

#include "tensora/libtorch/names.h"
#include "tensora/ops/loss/elementwise.h"

namespace torch {

namespace enumtype {

/// The base of all enumerators.
struct Text {
  std::string_view value, name;
  constexpr operator std::string_view() const { return value; }  // NOLINT: implicit
};
#define TENSORA_ENUMERATOR(name, text)      \
  struct name : Text {                      \
    constexpr name() : Text{text, #name} {} \
  }
TENSORA_ENUMERATOR(kLinear, "linear");
TENSORA_ENUMERATOR(kConv1D, "conv1d");
TENSORA_ENUMERATOR(kConv2D, "conv2d");
TENSORA_ENUMERATOR(kConv3D, "conv3d");
TENSORA_ENUMERATOR(kConvTranspose1D, "conv_transpose1d");
TENSORA_ENUMERATOR(kConvTranspose2D, "conv_transpose2d");
TENSORA_ENUMERATOR(kConvTranspose3D, "conv_transpose3d");
TENSORA_ENUMERATOR(kSigmoid, "sigmoid");
TENSORA_ENUMERATOR(kTanh, "tanh");
TENSORA_ENUMERATOR(kReLU, "relu");
TENSORA_ENUMERATOR(kGELU, "gelu");
TENSORA_ENUMERATOR(kSiLU, "silu");
TENSORA_ENUMERATOR(kMish, "mish");
TENSORA_ENUMERATOR(kLeakyReLU, "leaky_relu");
TENSORA_ENUMERATOR(kFanIn, "fan_in");
TENSORA_ENUMERATOR(kFanOut, "fan_out");
TENSORA_ENUMERATOR(kConstant, "constant");
TENSORA_ENUMERATOR(kReflect, "reflect");
TENSORA_ENUMERATOR(kReplicate, "replicate");
TENSORA_ENUMERATOR(kCircular, "circular");
TENSORA_ENUMERATOR(kNearest, "nearest");
TENSORA_ENUMERATOR(kBilinear, "bilinear");
TENSORA_ENUMERATOR(kBicubic, "bicubic");
TENSORA_ENUMERATOR(kTrilinear, "trilinear");
TENSORA_ENUMERATOR(kArea, "area");
TENSORA_ENUMERATOR(kNearestExact, "nearest-exact");
TENSORA_ENUMERATOR(kSum, "sum");
TENSORA_ENUMERATOR(kMean, "mean");
TENSORA_ENUMERATOR(kMax, "max");
TENSORA_ENUMERATOR(kNone, "none");
TENSORA_ENUMERATOR(kBatchMean, "batchmean");
TENSORA_ENUMERATOR(kZeros, "zeros");
TENSORA_ENUMERATOR(kBorder, "border");
TENSORA_ENUMERATOR(kReflection, "reflection");
TENSORA_ENUMERATOR(kRNN_TANH, "RNN_TANH");
TENSORA_ENUMERATOR(kRNN_RELU, "RNN_RELU");
TENSORA_ENUMERATOR(kLSTM, "LSTM");
TENSORA_ENUMERATOR(kGRU, "GRU");
TENSORA_ENUMERATOR(kValid, "valid");
TENSORA_ENUMERATOR(kSame, "same");
#undef TENSORA_ENUMERATOR

}  // namespace enumtype

inline constexpr enumtype::kLinear kLinear;
inline constexpr enumtype::kConv1D kConv1D;
inline constexpr enumtype::kConv2D kConv2D;
inline constexpr enumtype::kConv3D kConv3D;
inline constexpr enumtype::kConvTranspose1D kConvTranspose1D;
inline constexpr enumtype::kConvTranspose2D kConvTranspose2D;
inline constexpr enumtype::kConvTranspose3D kConvTranspose3D;
inline constexpr enumtype::kSigmoid kSigmoid;
inline constexpr enumtype::kTanh kTanh;
inline constexpr enumtype::kReLU kReLU;
inline constexpr enumtype::kGELU kGELU;
inline constexpr enumtype::kSiLU kSiLU;
inline constexpr enumtype::kMish kMish;
inline constexpr enumtype::kLeakyReLU kLeakyReLU;
inline constexpr enumtype::kFanIn kFanIn;
inline constexpr enumtype::kFanOut kFanOut;
inline constexpr enumtype::kConstant kConstant;
inline constexpr enumtype::kReflect kReflect;
inline constexpr enumtype::kReplicate kReplicate;
inline constexpr enumtype::kCircular kCircular;
inline constexpr enumtype::kNearest kNearest;
inline constexpr enumtype::kBilinear kBilinear;
inline constexpr enumtype::kBicubic kBicubic;
inline constexpr enumtype::kTrilinear kTrilinear;
inline constexpr enumtype::kArea kArea;
inline constexpr enumtype::kNearestExact kNearestExact;
inline constexpr enumtype::kSum kSum;
inline constexpr enumtype::kMean kMean;
inline constexpr enumtype::kMax kMax;
inline constexpr enumtype::kNone kNone;
inline constexpr enumtype::kBatchMean kBatchMean;
inline constexpr enumtype::kZeros kZeros;
inline constexpr enumtype::kBorder kBorder;
inline constexpr enumtype::kReflection kReflection;
inline constexpr enumtype::kRNN_TANH kRNN_TANH;
inline constexpr enumtype::kRNN_RELU kRNN_RELU;
inline constexpr enumtype::kLSTM kLSTM;
inline constexpr enumtype::kGRU kGRU;
inline constexpr enumtype::kValid kValid;
inline constexpr enumtype::kSame kSame;

/// Any enumerator, as options hold it.
struct Choice {
  std::string_view text;
  std::string_view name;  // "kSum"
  template <std::derived_from<enumtype::Text> Enumerator>
  constexpr Choice(const Enumerator& enumerator)
      : text(enumerator.value), name(enumerator.name) {}  // NOLINT: implicit
  constexpr bool operator==(const Choice&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Choice& choice) {
  return out << choice.name;
}

namespace enumtype {
/// "kSum" for torch::kSum, of a variant of enumerators or of what options hold.
template <class... Enumerators>
std::string get_enum_name(const std::variant<Enumerators...>& variant) {
  return std::visit([](const auto& e) { return std::string(Choice(e).name); }, variant);
}
inline std::string get_enum_name(const Choice& choice) { return std::string(choice.name); }
}  // namespace enumtype

/// The reduction of a loss.
tensora::Reduction to_reduction(const Choice& choice);

}  // namespace torch
