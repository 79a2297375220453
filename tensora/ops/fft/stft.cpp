// Registers nothing: functions of the transforms.
#include "tensora/ops/fft/stft.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/fft/fft.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/resample/pad.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/sliding.h"

namespace tensora {
namespace {

/// How frames lie in a signal.
struct Frames {
  std::string_view op;
  int64_t size;  // n_fft
  int64_t hop;
  int64_t window_length;

  void check_window(const Tensor& window) const {
    check(window_length > 0 && window_length <= size, op,
          ": expected 0 < win_length <= n_fft = ", size, ", got win_length = ", window_length);
    check(!window.defined() || (window.dim() == 1 && window.size(0) == window_length), op,
          ": expected a 1-D window of size win_length = ", window_length, ", got shape ",
          window.defined() ? window.sizes() : Shape{});
  }
  /// The window with zeros around it; undefined where it would be all ones.
  Tensor whole_window(const Tensor& window, const Tensor& like) const {
    if (window.defined() && !is_differentiable(window.dtype()) && is_differentiable(like.dtype()))
      return whole_window(to(window, real_dtype(like.dtype())), like);
    if (window_length == size) return window;
    const TensorOptions options{.dtype = real_dtype(like.dtype()), .device = like.device()};
    const Tensor inner = window.defined() ? window : ones({window_length}, options);
    const int64_t left = (size - window_length) / 2;
    return pad(inner, {left, size - window_length - left});
  }
};

/// Adds frames (B, count, size) up where they lie: (B, total).
Tensor add_frames(const Tensor& frames, int64_t total, int64_t hop) {
  if (frames.is_complex())
    return complex(add_frames(real(frames), total, hop), add_frames(imag(frames), total, hop));
  return apply(sliding_backward_op, {frames},
               {Shape{frames.size(0), total}, 1, frames.size(2), hop});
}

Tensor padded(const Tensor& signals, int64_t by, std::string_view mode) {
  if (mode == "constant") return pad(signals, {by, by});
  return squeeze(pad(unsqueeze(signals, 0), {by, by}, mode), 0);
}

}  // namespace

Tensor stft(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
            std::optional<int64_t> win_length, const Tensor& window, bool center,
            std::string_view pad_mode, bool normalized, std::optional<bool> onesided,
            std::optional<bool> return_complex) {
  if (is_autocast_enabled())
    return autocast_call(
        "stft", Autocast::full,
        [&](const Tensor& signals, const Tensor& shape) {
          return stft(signals, n_fft, hop_length, win_length, shape, center, pad_mode, normalized,
                      onesided, return_complex);
        },
        self, window);
  const Frames frames{"stft", n_fft, hop_length.value_or(n_fft / 4), win_length.value_or(n_fft)};
  check(self.is_floating_point() || self.is_complex(), "stft: expected a floating or complex ",
        "tensor, got ", self.dtype());
  check(self.dim() == 1 || self.dim() == 2, "stft: expected a 1-D or 2-D tensor, got shape ",
        self.sizes());
  const bool complex_result = self.is_complex() || (window.defined() && window.is_complex());
  check(complex_result || return_complex, "stft: return_complex must be given for real signals");
  check(!onesided.value_or(false) || !complex_result,
        "stft: cannot have onesided output if the window or the input is complex");
  Tensor signals = self.dim() == 1 ? unsqueeze(self, 0) : self;
  if (center) signals = padded(signals, n_fft / 2, pad_mode);
  const int64_t length = signals.size(1);
  check(n_fft > 0 && n_fft <= length, "stft: expected 0 < n_fft <= ", length,
        ", the length of the signal, got n_fft = ", n_fft);
  check(frames.hop > 0, "stft: expected hop_length > 0, got ", frames.hop);
  frames.check_window(window);
  Tensor x = unfold(signals, 1, n_fft, frames.hop);  // B, frames, n_fft
  if (const Tensor weights = frames.whole_window(window, self); weights.defined()) x = x * weights;
  const std::string_view norm = normalized ? "ortho" : "backward";
  const Tensor spectra =
      onesided.value_or(!complex_result) ? fft::rfft(x, {}, -1, norm) : fft::fft(x, {}, -1, norm);
  Tensor result = transpose(spectra, 1, 2);
  if (self.dim() == 1) result = squeeze(result, 0);
  return return_complex.value_or(true) ? result : view_as_real(result);
}

Tensor istft(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
             std::optional<int64_t> win_length, const Tensor& window, bool center, bool normalized,
             std::optional<bool> onesided, std::optional<int64_t> length, bool return_complex) {
  const Frames frames{"istft", n_fft, hop_length.value_or(n_fft / 4), win_length.value_or(n_fft)};
  check(self.is_complex(), "istft: expected a complex tensor, as stft returns it with ",
        "return_complex, got ", self.dtype());
  check(self.dim() == 2 || self.dim() == 3, "istft: expected a 2-D or 3-D tensor, got shape ",
        self.sizes());
  check(self.numel() > 0, "istft: the input must not be empty, got shape ", self.sizes());
  const Tensor spectra = transpose(self.dim() == 2 ? unsqueeze(self, 0) : self, 1, 2);
  const int64_t count = spectra.size(1), frequencies = spectra.size(2);
  const bool half = onesided.value_or(frequencies != n_fft);
  check(frequencies == (half ? n_fft / 2 + 1 : n_fft), "istft: expected ",
        half ? n_fft / 2 + 1 : n_fft, " frequencies, got shape ", self.sizes());
  frames.check_window(window);
  check(frames.hop > 0 && frames.hop <= frames.window_length,
        "istft: expected 0 < hop_length <= win_length = ", frames.window_length, ", got ",
        frames.hop);
  check(!return_complex || !half, "istft: a complex result needs all frequencies");
  check(return_complex || !window.defined() || !window.is_complex(),
        "istft: a complex window needs return_complex");
  const std::string_view norm = normalized ? "ortho" : "backward";
  const Tensor signals =
      return_complex ? fft::ifft(spectra, {}, -1, norm) : fft::irfft(spectra, n_fft, -1, norm);
  Tensor weights = frames.whole_window(window, self);
  if (!weights.defined())
    weights = ones({n_fft}, {.dtype = real_dtype(self.dtype()), .device = self.device()});
  const int64_t total = n_fft + frames.hop * (count - 1);
  const int64_t start = center ? n_fft / 2 : 0;
  const int64_t end = length ? start + *length : center ? total - n_fft / 2 : total;
  const int64_t known = std::min(end, total) - start;
  check(known > 0, "istft: no samples are left of ", total, " after cutting off ", start,
        " at each end");
  const Tensor sum = narrow(add_frames(signals * weights, total, frames.hop), 1, start, known);
  const Tensor squares = expand(weights * weights, {1, count, n_fft});
  const Tensor envelope = narrow(add_frames(squares, total, frames.hop), 1, start, known);
  {
    const no_grad silent;
    const double lowest = amin(abs(envelope)).item<double>();
    check(lowest > 1e-11, "istft: the windows leave gaps: the least sum of their squares is ",
          lowest);
  }
  Tensor result = sum / envelope;
  if (end > total) result = pad(result, {0, end - total});
  return self.dim() == 2 ? squeeze(result, 0) : result;
}

}  // namespace tensora
