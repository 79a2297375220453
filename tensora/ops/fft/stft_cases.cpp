#include "tensora/ops/fft/stft.h"

#include "tensora/ops/fft/fft_cases.h"

namespace tensora::suite {
namespace {

constexpr int64_t kLength = 11, kFrame = 6, kHop = 2, kWindow = 4, kCount = 6;

/// A signal (T) with its mirror image around both ends.
Array reflected(const Array& x, int64_t by) {
  const int64_t n = x.numel();
  Array out(Shape{n + 2 * by});
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t at = std::abs(i - by);
    out[i] = x[at < n ? at : 2 * (n - 1) - at];
  }
  return out;
}

/// Frames (frames, n_fft) of a signal, multiplied by a window in their middle.
Array windowed(const Array& x, const Array& window) {
  Array out({kCount, kFrame});
  for (int64_t t = 0; t < kCount; ++t)
    for (int64_t i = 0; i < kWindow; ++i) out[t * kFrame + i + 1] = x[t * kHop + i + 1] * window[i];
  return out;
}

/// (frames, frequencies, 2) with the first two dims exchanged.
Array turned(const Array& x) {
  const int64_t rows = x.sizes[0], columns = x.sizes[1];
  Array out({columns, rows, 2});
  for (int64_t i = 0; i < x.numel(); ++i)
    out[(i / 2 % columns * rows + i / 2 / columns) * 2 + i % 2] = x[i];
  return out;
}

void forward(Cases& cases) {
  for (const bool onesided : {true, false})
    cases.add({.op = "stft",
               .name = onesided ? "onesided" : "all frequencies",
               .inputs = {{{kLength}}, {{kWindow}}},
               .run =
                   [=](In x) {
                     return one(stft(x[0], kFrame, kHop, kWindow, x[1], true, "reflect", false,
                                     onesided, false));
                   },
               .reference =
                   [=](Arrays x) {
                     const Array frames = windowed(reflected(x[0], kFrame / 2), x[1]);
                     const Array all = transformed(with_zeros(frames), 1, true);
                     return one(turned(onesided ? resized(all, 1, kFrame / 2 + 1) : all));
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 60});
  cases.add({.op = "stft",
             .name = "a batch, normalized, not centred",
             .inputs = {{{2, 8}}},
             .run =
                 [](In x) {
                   return one(
                       view_as_real(stft(x[0], 4, 4, {}, {}, false, "reflect", true, {}, true)));
                 },
             .reference =
                 [](Arrays x) {
                   Array frames({4, 4});
                   frames.values = x[0].values;
                   const Array all = transformed(with_zeros(frames), 1, true, 0.5);
                   Array out({2, 3, 2, 2});
                   Array::each(out.sizes, [&](const Shape& i) {
                     out.at(i) = all.at({2 * i[0] + i[2], i[1], i[3]});
                   });
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 60});
}

// The inverse gives the signal back.
void inverse(Cases& cases) {
  for (const bool complex_signal : {false, true})
    cases.add({.op = "istft",
               .name = complex_signal ? "complex" : "real",
               .inputs = {complex_signal ? Input{{2, 16, 2}} : Input{{2, 16}}, {{8}, 0.5, 2}},
               .run =
                   [=](In x) {
                     const Tensor signals = complex_signal ? from_parts(x[0]) : x[0];
                     const Tensor spectra =
                         stft(signals, 8, 2, {}, x[1], true, "constant", false, {}, true);
                     return one(to_parts(
                         istft(spectra, 8, 2, {}, x[1], true, false, {}, 16, complex_signal)));
                   },
               .reference = [](Arrays x) { return one(x[0]); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 60,
               .opt_out = {{Mode::jit, "reads the sum of the windows"},
                           {Mode::meta, "reads the sum of the windows"}}});
}

void mistakes(Cases& cases) {
  const auto x = [](Shape sizes) { return ones(sizes, {.device = device()}); };
  cases.error("stft", "return_complex", "return_complex must be given", [=] { stft(x({16}), 8); });
  cases.error("stft", "a long frame", "expected 0 < n_fft <= 4",
              [=] { stft(x({4}), 8, {}, {}, {}, false, "reflect", false, {}, true); });
  cases.error("stft", "a window of another size", "expected a 1-D window of size win_length = 8",
              [=] { stft(x({16}), 8, {}, {}, x({7}), true, "reflect", false, {}, true); });
  cases.error("stft", "hop", "expected hop_length > 0",
              [=] { stft(x({16}), 8, 0, {}, {}, true, "reflect", false, {}, true); });
  cases.error("istft", "a real tensor", "istft: expected a complex tensor", [=] {
    istft(x({5, 3}), 8);
  });
  cases.error("istft", "gaps", "the windows leave gaps", [=] {
    istft(to(x({5, 3}), kComplex64), 8, 4, {}, x({8}) * 0.0);
  });
}

}  // namespace

void stft_cases(Cases& cases) {
  forward(cases);
  inverse(cases);
  mistakes(cases);
}

}  // namespace tensora::suite
