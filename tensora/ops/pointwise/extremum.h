#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// NaN if either is; at ties the gradient is halved.
struct Maximum : Binary {
  static constexpr auto name = "maximum";
  static constexpr auto types = Types::any;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return maximum(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.a < s.b, lit<V>(0), s.g));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.b < s.a, lit<V>(0), s.g));
  }
};

struct Minimum : Binary {
  static constexpr auto name = "minimum";
  static constexpr auto types = Types::any;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return minimum(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.a > s.b, lit<V>(0), s.g));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.b > s.a, lit<V>(0), s.g));
  }
};

/// Prefers a number to NaN.
struct Fmax : Binary {
  static constexpr auto name = "fmax";
  static constexpr auto types = Types::any;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return select((self >= other) | isnan(other), self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select((s.a >= s.b) | isnan(s.b), s.g, lit<V>(0)));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select((s.a >= s.b) | isnan(s.b), lit<V>(0), s.g));
  }
};

struct Fmin : Binary {
  static constexpr auto name = "fmin";
  static constexpr auto types = Types::any;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return select((self <= other) | isnan(other), self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select((s.a <= s.b) | isnan(s.b), s.g, lit<V>(0)));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select((s.a <= s.b) | isnan(s.b), lit<V>(0), s.g));
  }
};

// Note [Ties of clamp]
// Where an element equals a bound, PyTorch halves the gradient between them if the bound is a
// tensor, and stops it if the bound is a `number`. NaN passes the one and not the other.

struct ClampMin : Binary {
  static constexpr auto name = "clamp_min";
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  bool number = false;
  template <class V>
  constexpr V forward(V self, V min) const {
    return maximum(self, min);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    if (number) return select(s.a > s.b, s.g, lit<V>(0));
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.a < s.b, lit<V>(0), s.g));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.b < s.a, lit<V>(0), s.g));
  }
};

struct ClampMax : Binary {
  static constexpr auto name = "clamp_max";
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  bool number = false;
  template <class V>
  constexpr V forward(V self, V max) const {
    return minimum(self, max);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    if (number) return select(s.a < s.b, s.g, lit<V>(0));
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.a > s.b, lit<V>(0), s.g));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == s.b, s.g * lit<V>(0.5), select(s.b > s.a, lit<V>(0), s.g));
  }
};

/// max where min exceeds it.
struct Clamp : Ternary {
  static constexpr auto name = "clamp";
  static constexpr auto types = Types::number;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA | kB | kC, saves_b = kA | kB | kC, saves_c = kA | kB | kC;
  bool number = false;
  template <class V>
  constexpr V forward(V self, V min, V max) const {
    return select(isnan(min) | isnan(max), min + max, clamp(self, min, max));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    if (number) return select((s.a > s.b) & (s.a < s.c), s.g, lit<V>(0));
    const auto tie = ((s.a == s.b) | (s.a == s.c)) & (s.b < s.c);
    return select((s.a < s.b) | (s.a > s.c), lit<V>(0), select(tie, s.g * lit<V>(0.5), s.g));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    const V shared = select((s.a == s.b) & (s.b < s.c), s.g * lit<V>(0.5), lit<V>(0));
    return select((s.a < s.b) & (s.b <= s.c), s.g, shared);
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    const V shared = select((s.a == s.c) & (s.b < s.c), s.g * lit<V>(0.5), lit<V>(0));
    return select((s.a > s.c) | (s.c < s.b), s.g, shared);
  }
};

}  // namespace tensora::functors
