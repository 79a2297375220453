#pragma once

// Internal header: what one step of a recurrent cell computes per element, once for all devices.

#include "tensora/base/host_device.h"
#include "tensora/base/math.h"

namespace tensora::rnn {

struct MathFunctions {
  template <class C>
  TENSORA_HD static C sigmoid(C x) {
    return math::sigmoid(x);
  }
  template <class C>
  TENSORA_HD static C tanh(C x) {
    return math::tanh(x);
  }
};

/// From the sums of the four gates and the old cell to hidden state, cell, and the gates' values.
template <class Functions>
struct LstmStepBy {
  static constexpr int kIn = 5, kOut = 6;
  template <class C>
  TENSORA_HD void operator()(C (&y)[kOut], C i, C f, C g, C o, C c) const {
    y[2] = Functions::sigmoid(i);
    y[3] = Functions::sigmoid(f);
    y[4] = Functions::tanh(g);
    y[5] = Functions::sigmoid(o);
    y[1] = y[3] * c + y[2] * y[4];
    y[0] = y[5] * Functions::tanh(y[1]);
  }
};
using LstmStep = LstmStepBy<MathFunctions>;

/// From the gradients of hidden state and cell, the gates' values and the cell before and after, to
/// the gradients of the sums and of the old cell.
template <class Functions>
struct LstmStepBackwardBy {
  static constexpr int kIn = 8, kOut = 5;
  template <class C>
  TENSORA_HD void operator()(C (&y)[kOut], C dh, C dc, C i, C f, C g, C o, C before,
                             C after) const {
    const C t = Functions::tanh(after);
    const C d = dc + dh * o * (1 - t * t);
    y[0] = d * g * i * (1 - i);
    y[1] = d * before * f * (1 - f);
    y[2] = d * i * (1 - g * g);
    y[3] = dh * t * o * (1 - o);
    y[4] = d * f;
  }
};
using LstmStepBackward = LstmStepBackwardBy<MathFunctions>;

/// From the three sums over the input and over the hidden state, and the old hidden state, to the
/// new one, the gates' values, and the hidden state's part of the third sum.
struct GruStep {
  static constexpr int kIn = 7, kOut = 5;
  template <class C>
  TENSORA_HD void operator()(C (&y)[kOut], C xr, C xz, C xn, C hr, C hz, C hn, C h) const {
    y[1] = math::sigmoid(xr + hr);
    y[2] = math::sigmoid(xz + hz);
    y[3] = math::tanh(xn + y[1] * hn);
    y[4] = hn;
    y[0] = y[3] + y[2] * (h - y[3]);
  }
};

/// From the gradient of the hidden state, the gates' values and the old hidden state, to the
/// gradients of the sums over the input, over the hidden state, and of the old hidden state itself.
struct GruStepBackward {
  static constexpr int kIn = 6, kOut = 7;
  template <class C>
  TENSORA_HD void operator()(C (&y)[kOut], C dh, C r, C z, C n, C hn, C h) const {
    const C dn = dh * (1 - z) * (1 - n * n);
    y[0] = y[3] = dn * hn * r * (1 - r);
    y[1] = y[4] = dh * (h - n) * z * (1 - z);
    y[2] = dn;
    y[5] = dn * r;
    y[6] = dh * z;
  }
};

}  // namespace tensora::rnn
