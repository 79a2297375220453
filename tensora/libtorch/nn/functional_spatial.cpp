#include "tensora/libtorch/nn/functional.h"

#include "tensora/nn/fractional_max_pool.h"
#include "tensora/ops.h"

namespace torch {

namespace detail {
void throw_wrong_count(size_t expected, size_t given) {
  tensora::fail("Expected ", expected, " values, but instead got ", given);
}
}  // namespace detail

namespace nn::functional {

namespace {

template <size_t D>
tensora::ConvPadding padding_of(const conv_padding_t<D>& padding) {
  if (const auto* zeros = std::get_if<ExpandingArray<D>>(&padding)) return tensora::Shape(*zeros);
  return std::holds_alternative<enumtype::kSame>(padding) ? "same" : "valid";
}

template <size_t D>
tensora::nn::FractionalMaxPool<int{D}> fractional_pool(const FractionalMaxPoolOptions<D>& options) {
  tensora::nn::FractionalMaxPoolOptions own;
  if (options.output_size()) own.output_size = tensora::Shape(*options.output_size());
  if (const auto& ratio = options.output_ratio())
    own.output_ratio =
        tensora::nn::ScaleFactor(std::vector<double>((*ratio)->begin(), (*ratio)->end()));
  own.random_samples = options._random_samples();
  return {options.kernel_size(), own};
}

}  // namespace

// ---- Convolutions.

Tensor conv1d(const Tensor& input, const Tensor& weight, const Conv1dFuncOptions& options) {
  return tensora::conv1d(input, weight, options.bias(), options.stride(),
                         padding_of(options.padding()), options.dilation(), options.groups());
}

Tensor conv2d(const Tensor& input, const Tensor& weight, const Conv2dFuncOptions& options) {
  return tensora::conv2d(input, weight, options.bias(), options.stride(),
                         padding_of(options.padding()), options.dilation(), options.groups());
}

Tensor conv3d(const Tensor& input, const Tensor& weight, const Conv3dFuncOptions& options) {
  return tensora::conv3d(input, weight, options.bias(), options.stride(),
                         padding_of(options.padding()), options.dilation(), options.groups());
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight,
                        const ConvTranspose1dFuncOptions& options) {
  return tensora::conv_transpose1d(input, weight, options.bias(), options.stride(),
                                   options.padding(), options.output_padding(), options.groups(),
                                   options.dilation());
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight,
                        const ConvTranspose2dFuncOptions& options) {
  return tensora::conv_transpose2d(input, weight, options.bias(), options.stride(),
                                   options.padding(), options.output_padding(), options.groups(),
                                   options.dilation());
}

Tensor conv_transpose3d(const Tensor& input, const Tensor& weight,
                        const ConvTranspose3dFuncOptions& options) {
  return tensora::conv_transpose3d(input, weight, options.bias(), options.stride(),
                                   options.padding(), options.output_padding(), options.groups(),
                                   options.dilation());
}

Tensor fold(const Tensor& input, const FoldFuncOptions& options) {
  return tensora::fold(input, options.output_size(), options.kernel_size(), options.dilation(),
                       options.padding(), options.stride());
}

Tensor unfold(const Tensor& input, const UnfoldFuncOptions& options) {
  return tensora::unfold(input, options.kernel_size(), options.dilation(), options.padding(),
                         options.stride());
}

// ---- Pools.

Tensor avg_pool1d(const Tensor& input, const AvgPool1dFuncOptions& options) {
  return tensora::avg_pool1d(input, options.kernel_size(), options.stride(), options.padding(),
                             options.ceil_mode(), options.count_include_pad());
}

Tensor avg_pool2d(const Tensor& input, const AvgPool2dFuncOptions& options) {
  return tensora::avg_pool2d(input, options.kernel_size(), options.stride(), options.padding(),
                             options.ceil_mode(), options.count_include_pad(),
                             options.divisor_override());
}

Tensor avg_pool3d(const Tensor& input, const AvgPool3dFuncOptions& options) {
  return tensora::avg_pool3d(input, options.kernel_size(), options.stride(), options.padding(),
                             options.ceil_mode(), options.count_include_pad(),
                             options.divisor_override());
}

Tensor max_pool1d(const Tensor& input, const MaxPool1dFuncOptions& options) {
  return tensora::max_pool1d(input, options.kernel_size(), options.stride(), options.padding(),
                             options.dilation(), options.ceil_mode());
}

std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input,
                                                   const MaxPool1dFuncOptions& options) {
  return tensora::max_pool1d_with_indices(input, options.kernel_size(), options.stride(),
                                          options.padding(), options.dilation(),
                                          options.ceil_mode());
}

Tensor max_pool2d(const Tensor& input, const MaxPool2dFuncOptions& options) {
  return tensora::max_pool2d(input, options.kernel_size(), options.stride(), options.padding(),
                             options.dilation(), options.ceil_mode());
}

std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input,
                                                   const MaxPool2dFuncOptions& options) {
  return tensora::max_pool2d_with_indices(input, options.kernel_size(), options.stride(),
                                          options.padding(), options.dilation(),
                                          options.ceil_mode());
}

Tensor max_pool3d(const Tensor& input, const MaxPool3dFuncOptions& options) {
  return tensora::max_pool3d(input, options.kernel_size(), options.stride(), options.padding(),
                             options.dilation(), options.ceil_mode());
}

std::tuple<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input,
                                                   const MaxPool3dFuncOptions& options) {
  return tensora::max_pool3d_with_indices(input, options.kernel_size(), options.stride(),
                                          options.padding(), options.dilation(),
                                          options.ceil_mode());
}

Tensor adaptive_avg_pool1d(const Tensor& input, const AdaptiveAvgPool1dFuncOptions& options) {
  return tensora::adaptive_avg_pool1d(input, options.output_size());
}

Tensor adaptive_avg_pool2d(const Tensor& input, const AdaptiveAvgPool2dFuncOptions& options) {
  return tensora::adaptive_avg_pool2d(input, options.output_size().for_input(input));
}

Tensor adaptive_avg_pool3d(const Tensor& input, const AdaptiveAvgPool3dFuncOptions& options) {
  return tensora::adaptive_avg_pool3d(input, options.output_size().for_input(input));
}

Tensor adaptive_max_pool1d(const Tensor& input, const AdaptiveMaxPool1dFuncOptions& options) {
  return tensora::adaptive_max_pool1d(input, options.output_size());
}

std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(
    const Tensor& input, const AdaptiveMaxPool1dFuncOptions& options) {
  return tensora::adaptive_max_pool1d_with_indices(input, options.output_size());
}

Tensor adaptive_max_pool2d(const Tensor& input, const AdaptiveMaxPool2dFuncOptions& options) {
  return tensora::adaptive_max_pool2d(input, options.output_size().for_input(input));
}

std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(
    const Tensor& input, const AdaptiveMaxPool2dFuncOptions& options) {
  return tensora::adaptive_max_pool2d_with_indices(input, options.output_size().for_input(input));
}

Tensor adaptive_max_pool3d(const Tensor& input, const AdaptiveMaxPool3dFuncOptions& options) {
  return tensora::adaptive_max_pool3d(input, options.output_size().for_input(input));
}

std::tuple<Tensor, Tensor> adaptive_max_pool3d_with_indices(
    const Tensor& input, const AdaptiveMaxPool3dFuncOptions& options) {
  return tensora::adaptive_max_pool3d_with_indices(input, options.output_size().for_input(input));
}

Tensor max_unpool1d(const Tensor& input, const Tensor& indices,
                    const MaxUnpool1dFuncOptions& options) {
  return tensora::max_unpool1d(input, indices, options.kernel_size(), options.stride(),
                               options.padding(),
                               options.output_size().value_or(std::vector<int64_t>()));
}

Tensor max_unpool2d(const Tensor& input, const Tensor& indices,
                    const MaxUnpool2dFuncOptions& options) {
  return tensora::max_unpool2d(input, indices, options.kernel_size(), options.stride(),
                               options.padding(),
                               options.output_size().value_or(std::vector<int64_t>()));
}

Tensor max_unpool3d(const Tensor& input, const Tensor& indices,
                    const MaxUnpool3dFuncOptions& options) {
  return tensora::max_unpool3d(input, indices, options.kernel_size(), options.stride(),
                               options.padding(),
                               options.output_size().value_or(std::vector<int64_t>()));
}

Tensor fractional_max_pool2d(const Tensor& input, const FractionalMaxPool2dFuncOptions& options) {
  return fractional_pool<2>(options).forward(input);
}

std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(
    const Tensor& input, const FractionalMaxPool2dFuncOptions& options) {
  return fractional_pool<2>(options).forward_with_indices(input);
}

Tensor fractional_max_pool3d(const Tensor& input, const FractionalMaxPool3dFuncOptions& options) {
  return fractional_pool<3>(options).forward(input);
}

std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(
    const Tensor& input, const FractionalMaxPool3dFuncOptions& options) {
  return fractional_pool<3>(options).forward_with_indices(input);
}

Tensor lp_pool1d(const Tensor& input, const LPPool1dFuncOptions& options) {
  return tensora::lp_pool1d(input, options.norm_type(), options.kernel_size(), options.stride(),
                            options.ceil_mode());
}

Tensor lp_pool2d(const Tensor& input, const LPPool2dFuncOptions& options) {
  return tensora::lp_pool2d(input, options.norm_type(), options.kernel_size(), options.stride(),
                            options.ceil_mode());
}

Tensor lp_pool3d(const Tensor& input, const LPPool3dFuncOptions& options) {
  return tensora::lp_pool3d(input, options.norm_type(), options.kernel_size(), options.stride(),
                            options.ceil_mode());
}

// ---- Padding and resampling.

Tensor pad(const Tensor& input, const PadFuncOptions& options) {
  return options.mode() == Choice(kConstant)
             ? tensora::pad(input, options.pad(), "constant", options.value())
             : tensora::pad(input, options.pad(), options.mode().text);
}

Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& options) {
  return tensora::pixel_shuffle(input, options.upscale_factor());
}

Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& options) {
  return tensora::pixel_unshuffle(input, options.downscale_factor());
}

Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options) {
  std::optional<tensora::Shape> size;
  if (options.size()) size = *options.size();
  return tensora::interpolate(input, size, options.scale_factor(), options.mode().text,
                              options.align_corners(), options.recompute_scale_factor(),
                              options.antialias());
}

Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& options) {
  return tensora::grid_sample(input, grid, options.mode().text, options.padding_mode().text,
                              options.align_corners());
}

Tensor affine_grid(const Tensor& theta, const IntArrayRef& size, bool align_corners) {
  return tensora::affine_grid(theta, size, align_corners);
}

}  // namespace nn::functional
}  // namespace torch
