#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// The result is bool; in place it is stored as 0 or 1 of the tensor's dtype.
struct Logical : Binary {
  static constexpr auto types = Types::predicate;
  static constexpr auto differentiable = false;
};
struct Bitwise : Binary {
  static constexpr auto types = Types::integral;
  static constexpr auto differentiable = false;
};

struct LogicalNot : Unary {
  static constexpr auto name = "logical_not";
  static constexpr auto types = Types::predicate;
  static constexpr auto differentiable = false;
  template <class V>
  constexpr V forward(V self) const {
    return V(self == V(0));
  }
};

struct LogicalAnd : Logical {
  static constexpr auto name = "logical_and";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V((self != V(0)) & (other != V(0)));
  }
};

struct LogicalOr : Logical {
  static constexpr auto name = "logical_or";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V((self != V(0)) | (other != V(0)));
  }
};

struct LogicalXor : Logical {
  static constexpr auto name = "logical_xor";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V((self != V(0)) != (other != V(0)));
  }
};

/// Bool tensors take logical_not instead: their elements are computed as integers.
struct BitwiseNot : Unary {
  static constexpr auto name = "bitwise_not";
  static constexpr auto types = Types::integer;
  static constexpr auto internal = true;
  static constexpr auto differentiable = false;
  template <class V>
  constexpr V forward(V self) const {
    return ~self;
  }
};

struct BitwiseAnd : Bitwise {
  static constexpr auto name = "bitwise_and";
  static constexpr bool wraps = true;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self & other;
  }
};

struct BitwiseOr : Bitwise {
  static constexpr auto name = "bitwise_or";
  static constexpr bool wraps = true;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self | other;
  }
};

struct BitwiseXor : Bitwise {
  static constexpr auto name = "bitwise_xor";
  static constexpr bool wraps = true;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self ^ other;
  }
};

/// 0 where the count is negative or not below the width.
struct BitwiseLeftShift : Bitwise {
  static constexpr auto name = "bitwise_left_shift";
  static constexpr auto types = Types::integer;
  template <class V>
  constexpr V forward(V self, V other) const {
    const bool out_of_range = (other < V(0)) | (other >= V(8 * sizeof(V)));
    return select(out_of_range, V(0), self << (out_of_range ? V(0) : other));
  }
};

/// The sign where the count is negative or not below the width.
struct BitwiseRightShift : Bitwise {
  static constexpr auto name = "bitwise_right_shift";
  static constexpr auto types = Types::integer;
  template <class V>
  constexpr V forward(V self, V other) const {
    const V most = V(8 * sizeof(V) - 1);
    return self >> select((other < V(0)) | (other > most), most, other);
  }
};

}  // namespace tensora::functors
