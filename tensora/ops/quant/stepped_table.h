#pragma once

#include <cstdint>

#include "tensora/ops/quant/block_fit.h"

namespace tensora {

/// The sixteen values of IQ4_NL and IQ4_XS: finer steps near 0, where most numbers are.
struct SteppedTable {
  TENSORA_HD static int value(int index) {
    constexpr int8_t table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
    return table[index];
  }

  /// The nearest value of the table; of two, the smaller one. Compares and adds: loops over it are
  /// vectorized, which a look-up is not.
  [[gnu::always_inline]] TENSORA_HD static float rounded(float x) {
    float result = static_cast<float>(value(0));
    for (int k = 0; k < 15; ++k)
      result += x > middle(k) ? static_cast<float>(value(k + 1) - value(k)) : 0.0f;
    return result;
  }
  /// Its index.
  [[gnu::always_inline]] TENSORA_HD static int nearest(float x) {
    int index = 0;
    for (int k = 0; k < 15; ++k) index += static_cast<int>(x > middle(k));
    return index;
  }

  template <int N>
  [[gnu::always_inline]] TENSORA_HD static void round(const float* x, float inverse,
                                                      uint8_t* indices) {
    for (int i = 0; i < N; ++i) indices[i] = static_cast<uint8_t>(nearest(x[i] * inverse));
  }

  /// The scale for which N numbers are best `scale` times a value of the table.
  template <int N>
  [[gnu::always_inline]] TENSORA_HD static float fit(const float* x) {
    const float extreme = blocks::extreme_of<N>(x);
    const float unit = blocks::inverse_or_zero(extreme);
    float best = extreme != extreme ? extreme : 0.0f, best_gain = 0.0f;
    // The extreme number goes to about one or the other end of the table.
    for (int step = -4; step <= 4; ++step) {
      for (float end : {-127.0f, 113.0f}) {
        float values[N];
        const float inverse = (end + 3.0f * static_cast<float>(step)) * unit;
        for (int i = 0; i < N; ++i) values[i] = rounded(x[i] * inverse);
        const float products = blocks::sum_of_products<N>(x, values);
        const float squares = blocks::sum_of_products<N>(values, values);
        const float gain = squares > 0.0f ? products * (products / squares) : 0.0f;
        if (!(gain > best_gain)) continue;
        best_gain = gain;
        best = products / squares;
      }
    }
    return best;
  }

 private:
  /// Between value k and the next one.
  TENSORA_HD static float middle(int k) {
    return 0.5f * static_cast<float>(value(k) + value(k + 1));
  }
};

}  // namespace tensora
