#pragma once

#include <optional>
#include <string_view>

#include "tensora/core/tensor.h"

namespace tensora {

/// The short-time Fourier transform of signals (… T): the spectra (… frequencies, frames) of frames
/// of `n_fft` samples, `hop_length` apart (n_fft / 4 unless given), each multiplied by `window`,
/// whose `win_length` samples (n_fft unless given) lie in the middle. With `center` the signal is
/// padded so that frame t is around sample t hop_length. `onesided`, which real signals are unless
/// it is given, keeps the first n_fft / 2 + 1 frequencies; `normalized` divides by the root of
/// n_fft. `return_complex` must be true for real signals, or false for pairs of real numbers.
Tensor stft(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length = {},
            std::optional<int64_t> win_length = {}, const Tensor& window = {}, bool center = true,
            std::string_view pad_mode = "reflect", bool normalized = false,
            std::optional<bool> onesided = {}, std::optional<bool> return_complex = {});

/// The least-squares estimate of the signals of which `self` is the transform, of `length` samples
/// if that is given. Throws where the windows leave gaps.
Tensor istft(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length = {},
             std::optional<int64_t> win_length = {}, const Tensor& window = {}, bool center = true,
             bool normalized = false, std::optional<bool> onesided = {},
             std::optional<int64_t> length = {}, bool return_complex = false);

}  // namespace tensora
