#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

inline constexpr double kSqrtHalf = 0.70710678118654752;
inline constexpr double kGaussScale = 0.39894228040143268;     // 1 / sqrt(2 pi)
inline constexpr double kGeluTwiceScale = 1.5957691216057308;  // 2 sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;
inline constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
inline constexpr double kSeluScale = 1.0507009873554804934193349852946;

// Note [The normal distribution in float]
// P(X < x), by its tail q(|x|) = P(X < -|x|) = t P(t) exp(-x * x / 2) with t = 1 / (1 + 0.3 |x|)
// and a polynomial P, fitted to least relative error (times 1 + x * x / 2, which exp's argument is
// off by anyway). Nothing cancels, so the result is good to 8e-7 of itself down to x = -3 and to
// 8e-6 in the far tail, where 1 + erf has no digits left; and it takes two thirds of erf's
// instructions, which is what GELU of 16-bit floats on a GPU spends its time on.
inline TENSORA_HD float normal_cdf(float x) {
  const float magnitude = abs(x), exponent = x * x * -0.72134752f;  // to base 2
  const float denominator = 0.3f * magnitude + 1.0f;
#if defined(__CUDA_ARCH__)
  float t, power;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(denominator));
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
#else
  const float t = 1.0f / denominator, power = exp2(exponent);
#endif
  float p = 0.0362079228f;
  p = p * t - 0.159049077f;
  p = p * t + 0.208803222f;
  p = p * t - 0.0551814701f;
  p = p * t + 0.128908884f;
  p = p * t + 0.0999547915f;
  p = p * t + 0.120722853f;
  p = p * t + 0.119632887f;
  const float tail = p * t * power;
  return select(x > 0.0f, 1.0f - tail, tail);
}
/// The same for double and for tensors.
template <class V>
constexpr V normal_cdf(const V& x) {
  return erfc(x * lit<V>(-kSqrtHalf)) * lit<V>(0.5);  // 1 + erf would cancel
}

struct Elu : Unary {
  static constexpr auto name = "elu";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = kLibraryUlp + 1;
  static constexpr unsigned saves_a = kA;
  Scalar alpha = 1;
  template <class V>
  constexpr V forward(V self) const {
    const V curve = lit<V>(alpha) * expm1(self);
    return select(self > lit<V>(0), self, curve);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V slope = s.g * lit<V>(alpha) * exp(s.a);
    return select(s.a <= lit<V>(0), slope, s.g);
  }
};

struct Selu : Unary {
  static constexpr auto name = "selu";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 2 * kLibraryUlp + 1;  // as xlogy's
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    const V curve = V(kSeluAlpha) * expm1(self);
    return V(kSeluScale) * select(self > V(0), self, curve);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V slope = s.g * exp(s.a) * lit<V>(kSeluAlpha);
    return select(s.a <= lit<V>(0), slope, s.g) * lit<V>(kSeluScale);
  }
};

struct Celu : Unary {
  static constexpr auto name = "celu";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = kLibraryUlp + 1;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA;
  Scalar alpha = 1;
  template <class V>
  constexpr V forward(V self) const {
    const V curve = lit<V>(alpha) * expm1(self / lit<V>(alpha));
    return select(self > lit<V>(0), self, curve);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V slope = s.g * exp(s.a / lit<V>(alpha));
    return select(s.a <= lit<V>(0), slope, s.g);
  }
};

struct Gelu : Unary {
  static constexpr auto name = "gelu";
  static constexpr auto types = Types::floating_only;
  // In the tail exp(-x * x / 2) takes the rounding of its argument times that argument.
  static constexpr double ulp = 16, ulp_scale = 0.01;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self * normal_cdf(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V share = normal_cdf(s.a);
    const V density = exp(s.a * s.a * lit<V>(-0.5)) * lit<V>(kGaussScale);
    return s.g * (share + s.a * density);
  }
};

struct GeluTanh : Unary {
  static constexpr auto name = "gelu_tanh";
  static constexpr auto types = Types::floating_only;
  // In the tail exp takes the rounding of its argument times that argument.
  static constexpr double ulp = 24, ulp_scale = 0.01;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    // (1 + tanh(z)) / 2 is the sigmoid of 2 z.
    const V z = self * (self * self * V(kGeluCubic) + V(1)) * V(kGeluTwiceScale);
    return self * sigmoid(z);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V square = s.a * s.a;
    const V z = s.a * (square * lit<V>(kGeluCubic) + lit<V>(1)) * lit<V>(kGeluTwiceScale);
    const V slope = (square * lit<V>(3 * kGeluCubic) + lit<V>(1)) * lit<V>(kGeluTwiceScale);
    const V share = sigmoid(z);
    return s.g * (share + s.a * share * (lit<V>(1) - share) * slope);
  }
};

struct Silu : Unary {
  static constexpr auto name = "silu";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 7, ulp_scale = 1e-30;  // exp(-self) overflows first
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self / (exp(-self) + V(1));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V share = sigmoid(s.a);
    return s.g * share * (s.a * (lit<V>(1) - share) + lit<V>(1));
  }
};

struct Mish : Unary {
  static constexpr auto name = "mish";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 10, ulp_scale = 1e-30;  // exp(self) underflows first
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    // tanh(log(1 + n)) = w / (w + 2) with n = exp(x), w = n (n + 2).
    const V n = exp(self);
    const V w = n * (n + V(2));
    return self * select(self > V(20), V(1), w / (w + V(2)));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V x = minimum(s.a, lit<V>(20));  // beyond, the slope is 1 to the last digit
    const V n = exp(x);
    const V w = n * (n + lit<V>(2));
    const V t = w / (w + lit<V>(2));
    const V rest =
        (t + lit<V>(1)) * lit<V>(2) / (w + lit<V>(2));  // 1 - t * t, without cancellation
    return s.g * (t + x * rest * (n / (n + lit<V>(1))));
  }
};

struct Softplus : Unary {
  static constexpr auto name = "softplus";
  static constexpr auto types = Types::floating_only;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = 8;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA;
  Scalar beta = 1;
  Scalar threshold = 20;
  template <class V>
  constexpr V forward(V self) const {
    const V z = self * lit<V>(beta);
    const V curve = (maximum(z, V(0)) + log1p_of_fraction(exp(-abs(z)))) / lit<V>(beta);
    return select(z > lit<V>(threshold), self, curve);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V z = s.a * lit<V>(beta);
    return select(z > lit<V>(threshold), s.g, s.g * sigmoid(z));
  }
};

struct Logsigmoid : Unary {
  static constexpr auto name = "logsigmoid";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 8;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return minimum(self, V(0)) - log1p_of_fraction(exp(-abs(self)));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * sigmoid(-s.a);
  }
};

struct Tanhshrink : Unary {
  static constexpr auto name = "tanhshrink";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp + 1;
  static constexpr bool ulp_of_operands = true;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self - tanh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V t = tanh(s.a);
    return s.g * t * t;
  }
};

}  // namespace tensora::functors
