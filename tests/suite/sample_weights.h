#pragma once

// Weights of any dtype for the cases of ops that multiply by quantized ones, with their numbers.

#include <cmath>
#include <cstring>

#include "tensora/ops/quant/blocks.h"
#include "tests/suite/cases.h"
#include "tests/suite/samples.h"

namespace tensora::suite {

/// A matrix N K whose numbers are known. Rows of int8 and float8_e4m3fn have scales.
struct SampleWeight {
  Tensor data, scale;  // on the CPU
  Array numbers;

  SampleWeight(DType dtype, int64_t rows, int64_t columns, uint64_t seed = 1)
      : data(empty({rows, columns}, {.dtype = dtype})), numbers({rows, columns}) {
    Numbers random(seed * 1000 + static_cast<uint64_t>(dtype));
    std::vector<float> plain(static_cast<size_t>(rows * columns));
    for (float& x : plain) x = static_cast<float>(random.next() * 0.5 - 0.25);
    if (is_quantized(dtype))
      encode(plain);
    else
      store(plain, random);
  }

  /// Both on the device under test.
  Tensor placed() const { return data.to(device()); }
  Tensor placed_scale() const { return scale.defined() ? scale.to(device()) : Tensor(); }

 private:
  void encode(const std::vector<float>& plain) {
    visit_block(data.dtype(), [&]<class Block>() {
      auto* blocks = static_cast<Block*>(data.data_ptr());
      for (size_t b = 0; b < plain.size() / Block::kNumbers; ++b) {
        blocks[b].encode(plain.data() + b * Block::kNumbers);
        for (int i = 0; i < Block::kNumbers; ++i)
          numbers.values[b * Block::kNumbers + static_cast<size_t>(i)] = blocks[b].number(i);
      }
    });
  }
  void store(const std::vector<float>& plain, Numbers& random) {
    const bool scaled = data.dtype() == kInt8 || data.dtype() == kFloat8E4M3;
    const int64_t rows = numbers.sizes[0], columns = numbers.sizes[1];
    if (scaled) scale = empty({rows});
    for (int64_t r = 0; r < rows; ++r) {
      const float factor = scaled ? static_cast<float>(random.next() + 0.5) / 127 : 1;
      if (scaled) scale.data_ptr<float>()[r] = factor;
      for (int64_t k = 0; k < columns; ++k) {
        const int64_t at = r * columns + k;
        const double value = plain[static_cast<size_t>(at)] * (scaled ? 400 : 1);
        char* address = static_cast<char*>(data.data_ptr()) +
                        at * static_cast<int64_t>(element_size(data.dtype()));
        store_element(address, data.dtype(), value);
        numbers[at] = load_element(address, data.dtype()) * factor;
      }
    }
  }
};

/// Activations that 8 bits hold exactly: multiples of 1 / 32 with 127 / 32 among every 32.
inline Input exact_activations(const Shape& sizes) {
  Input input{sizes};
  for (int64_t i = 0; i < sizes.numel(); ++i)
    input.values.push_back(i % 32 == 5 ? 127.0 / 32 : static_cast<double>(i * 97 % 251 - 125) / 32);
  return input;
}

/// x Wᵀ for x: … K.
inline Array times_transposed(const Array& x, const Array& w) {
  Shape sizes = x.sizes;
  const int64_t n = w.sizes[0], k = w.sizes[1];
  sizes[sizes.size() - 1] = n;
  Array out(sizes);
  for (int64_t at = 0; at < out.numel(); ++at)
    for (int64_t i = 0; i < k; ++i) out[at] += x[at / n * k + i] * w[at % n * k + i];
  return out;
}

inline std::vector<DType> activation_dtypes() { return {kFloat32, kFloat16, kBFloat16}; }
inline const std::map<Mode, std::string> kNoGradient = {
    {Mode::grad, "inference ops have no gradient"}};

}  // namespace tensora::suite
