#pragma once

#include <array>
#include <string_view>
#include <type_traits>

namespace tensora {

class Tensor;

/// How a loss is summed up: Reduction::mean, or "mean" as in PyTorch. A loss refuses the names that
/// it does not have.
class Reduction {
 public:
  enum Kind : unsigned char { none, mean, sum, batchmean };

  constexpr Reduction(Kind kind) : kind_(kind) {}
  constexpr Reduction(std::string_view text);
  constexpr Reduction(const char* text) : Reduction(std::string_view(text)) {}

  /// Throws, naming `op`, for text that names no reduction.
  Kind kind(std::string_view op) const;

 private:
  Kind kind_ = mean;
  bool known_ = true;
  std::string_view text_;
};
constexpr std::array<std::string_view, 4> names_of(std::type_identity<Reduction::Kind>) {
  return {"none", "mean", "sum", "batchmean"};
}
constexpr Reduction::Reduction(std::string_view text) : known_(false), text_(text) {
  const auto names = names_of(std::type_identity<Kind>{});
  for (unsigned char i = 0; i < names.size(); ++i)
    if (names[i] == text) kind_ = static_cast<Kind>(i), known_ = true;
}

/// The losses of all elements as they are, averaged, or summed. Only kl_div has "batchmean".
Tensor reduce_loss(std::string_view op, const Tensor& losses, Reduction reduction);

}  // namespace tensora
