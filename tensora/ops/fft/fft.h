#pragma once

// PyTorch's torch.fft. A transform's size `n` (`s` of several dims, where -1 stands for the dim's
// size) is that of the dim, unless it is given: then the input is cut off or filled up with zeros
// at its end. `norm` says who divides by the number n of elements: "backward" (the default), the
// inverse transforms; "forward", the others; "ortho", both by its root.

#include <optional>
#include <string_view>

#include "tensora/core/tensor.h"

namespace tensora::fft {

/// The discrete Fourier transform along a dim: the sums of input[j] e^(-2 pi i j k / n). Integers
/// become the default dtype, and the result is complex. float16 and bfloat16 are refused.
Tensor fft(const Tensor& input, std::optional<int64_t> n = {}, int64_t dim = -1,
           std::optional<std::string_view> norm = {});
/// Its inverse.
Tensor ifft(const Tensor& input, std::optional<int64_t> n = {}, int64_t dim = -1,
            std::optional<std::string_view> norm = {});
/// The transform of a real tensor: the first n / 2 + 1 elements, whose conjugates are the others.
Tensor rfft(const Tensor& input, std::optional<int64_t> n = {}, int64_t dim = -1,
            std::optional<std::string_view> norm = {});
/// Its inverse: a real tensor of size n, or of an even size if n is not given.
Tensor irfft(const Tensor& input, std::optional<int64_t> n = {}, int64_t dim = -1,
             std::optional<std::string_view> norm = {});
/// The real transform of n elements of which the input holds the first n / 2 + 1; the others are
/// their conjugates.
Tensor hfft(const Tensor& input, std::optional<int64_t> n = {}, int64_t dim = -1,
            std::optional<std::string_view> norm = {});
/// Its inverse, of a real tensor.
Tensor ihfft(const Tensor& input, std::optional<int64_t> n = {}, int64_t dim = -1,
             std::optional<std::string_view> norm = {});

/// The same along several dims, all of them unless `s` or `dim` says otherwise; the last one is
/// that of which rfftn and its relatives keep the first half.
Tensor fftn(const Tensor& input, const std::optional<Shape>& s = {},
            const std::optional<Dims>& dim = {}, std::optional<std::string_view> norm = {});
Tensor ifftn(const Tensor& input, const std::optional<Shape>& s = {},
             const std::optional<Dims>& dim = {}, std::optional<std::string_view> norm = {});
Tensor rfftn(const Tensor& input, const std::optional<Shape>& s = {},
             const std::optional<Dims>& dim = {}, std::optional<std::string_view> norm = {});
Tensor irfftn(const Tensor& input, const std::optional<Shape>& s = {},
              const std::optional<Dims>& dim = {}, std::optional<std::string_view> norm = {});
Tensor hfftn(const Tensor& input, const std::optional<Shape>& s = {},
             const std::optional<Dims>& dim = {}, std::optional<std::string_view> norm = {});
Tensor ihfftn(const Tensor& input, const std::optional<Shape>& s = {},
              const std::optional<Dims>& dim = {}, std::optional<std::string_view> norm = {});

/// The same along two dims.
Tensor fft2(const Tensor& input, const std::optional<Shape>& s = {}, const Dims& dim = {-2, -1},
            std::optional<std::string_view> norm = {});
Tensor ifft2(const Tensor& input, const std::optional<Shape>& s = {}, const Dims& dim = {-2, -1},
             std::optional<std::string_view> norm = {});
Tensor rfft2(const Tensor& input, const std::optional<Shape>& s = {}, const Dims& dim = {-2, -1},
             std::optional<std::string_view> norm = {});
Tensor irfft2(const Tensor& input, const std::optional<Shape>& s = {}, const Dims& dim = {-2, -1},
              std::optional<std::string_view> norm = {});
Tensor hfft2(const Tensor& input, const std::optional<Shape>& s = {}, const Dims& dim = {-2, -1},
             std::optional<std::string_view> norm = {});
Tensor ihfft2(const Tensor& input, const std::optional<Shape>& s = {}, const Dims& dim = {-2, -1},
              std::optional<std::string_view> norm = {});

/// The frequencies of fft's elements, for samples `d` apart: [0, 1, …, -2, -1] / (n d).
Tensor fftfreq(int64_t n, double d = 1.0, const TensorOptions& options = {});
/// Those of rfft's: [0, 1, …, n / 2] / (n d).
Tensor rfftfreq(int64_t n, double d = 1.0, const TensorOptions& options = {});
/// Moves frequency 0 to the middle, along `dim`, or all dims.
Tensor fftshift(const Tensor& input, const std::optional<Dims>& dim = {});
/// The reverse.
Tensor ifftshift(const Tensor& input, const std::optional<Dims>& dim = {});

}  // namespace tensora::fft
