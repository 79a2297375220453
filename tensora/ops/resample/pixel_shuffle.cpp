// Registers nothing: functions of reshape and permute.
#include "tensora/ops/resample/pixel_shuffle.h"

#include "tensora/core/tensor.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// The leading dims as one; there may be more than fit beside the dims that are split.
Shape with_lead(const Shape& lead, std::initializer_list<int64_t> rest) {
  Shape result = lead;
  for (int64_t size : rest) result.push_back(size);
  return result;
}

// The result is no view of the input, even where nothing has to move.
Tensor apart(const Tensor& result, const Tensor& input) {
  return result.shares_storage(input) ? clone(result) : result;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& input, int64_t upscale_factor) {
  constexpr auto op = "pixel_shuffle";
  const int64_t r = upscale_factor;
  check(input.dim() >= 3, op, ": input must have at least 3 dims, got shape ", input.sizes());
  check(r > 0, op, ": upscale_factor must be positive, got ", r);
  const int64_t c = input.size(-3), h = input.size(-2), w = input.size(-1);
  check((r <= c || c == 0) && c % multiply_sizes(r, r, op) == 0, op, ": the ", c,
        " channels must be divisible by the square of upscale_factor ", r);
  Shape lead = input.sizes();
  lead.resize(input.dim() - 3);
  const int64_t n = lead.numel(), channels = c / (r * r);
  const Tensor split = reshape(input, {n, channels, r, r, h, w});
  const Tensor moved = permute(split, {0, 1, 4, 2, 5, 3});
  return apart(reshape(moved, with_lead(lead, {channels, h * r, w * r})), input);
}

Tensor pixel_unshuffle(const Tensor& input, int64_t downscale_factor) {
  constexpr auto op = "pixel_unshuffle";
  const int64_t r = downscale_factor;
  check(input.dim() >= 3, op, ": input must have at least 3 dims, got shape ", input.sizes());
  check(r > 0, op, ": downscale_factor must be positive, got ", r);
  const int64_t c = input.size(-3), h = input.size(-2), w = input.size(-1);
  check(h % r == 0 && w % r == 0, op, ": height and width must be divisible by ", r, ", got shape ",
        input.sizes());
  Shape lead = input.sizes();
  lead.resize(input.dim() - 3);
  const Tensor split = reshape(input, {lead.numel(), c, h / r, r, w / r, r});
  const Tensor moved = permute(split, {0, 1, 3, 5, 2, 4});
  return apart(reshape(moved, with_lead(lead, {c * r * r, h / r, w / r})), input);
}

Tensor channel_shuffle(const Tensor& input, int64_t groups) {
  constexpr auto op = "channel_shuffle";
  check(input.dim() > 2, op, ": input must have more than 2 dims, got shape ", input.sizes());
  check(groups > 0, op, ": groups must be positive, got ", groups);
  const int64_t c = input.size(1);
  check(c % groups == 0, op, ": the ", c, " channels must be divisible by groups, ", groups);
  const Tensor moved = transpose(unflatten(input, 1, {groups, c / groups}), 1, 2);
  return apart(contiguous(flatten(moved, 1, 2)), input);
}

}  // namespace tensora
