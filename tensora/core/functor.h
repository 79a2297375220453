#pragma once

// The protocol of pointwise functors. A functor is one struct: its name, its typing, the forward
// formula and the gradient formulas, each written once as a template over the value type V. With
// V = float (or double, int…) it is the body of the CPU loop and of the CUDA kernel; with
// V = Tensor it is a differentiable expression, which gives gradients of any order. The text is
// also embedded and compiled by NVRTC, so it includes nothing of the standard library.
//
// cmake/generate.py reads the structs of unary.h, binary.h, … and writes from them the public
// functions, the methods, the registration and the list for the op suite.

#include "tensora/base/complex_math.h"
#include "tensora/base/math.h"
#include "tensora/core/scalar.h"

namespace tensora {
class Tensor;
}

namespace tensora::functors {

/// Which dtypes are accepted, how they are promoted, and what dtype the result has.
enum class Types {
  any,            // promoted, bool included
  number,         // promoted, without bool
  integral,       // integers and bool
  integer,        // integers without bool
  floating,       // integers become the default float
  floating_only,  // integers are refused
  predicate,      // promoted; the result is bool
};
/// Which loops a functor is compiled for.
constexpr bool computes_floats(Types types) {
  return types != Types::integral && types != Types::integer;
}
constexpr bool computes_integers(Types types) {
  return types != Types::floating && types != Types::floating_only;
}

// What a gradient formula reads of the forward: bit masks for `saves_…`. A formula that reads
// nothing but g is applied as it is; the others become a fused kernel each.
inline constexpr unsigned kNothing = 0, kA = 1, kB = 2, kC = 4, kY = 8;

/// The gradient formula's arguments: g is the gradient of the result y; a, b, c the operands.
template <class V>
struct Saved {
  V g, a, b, c, y;
};

// Note [Bounds in ULP]
// The op suite holds every float result against the exact one, in units in the last place. `ulp` is
// the bound for float32 and float64, on every device and instruction set; 0.5, the default, is a
// correctly rounded result. The functions of glibc's vector part are within 4, and so are CUDA's
// but for the few that say so. Narrower floats are computed in float32 and rounded once more: 0.5
// stays, all else is within 1 of their units. Where terms cancel, or a step in between underflows,
// digits are lost that no bound of this kind can hold: results below `ulp_scale` are measured in
// its units, and with `ulp_of_operands` those below the largest operand in that operand's. Where a
// rounded step in between comes to lie on the other side of a jump, the result is off by
// `ulp_step`.

/// The bound of what calls one function of the C library.
inline constexpr double kLibraryUlp = 4;

struct PointwiseBase {
  static constexpr Types types = Types::any;
  static constexpr bool differentiable = true;    // false: the gradient is zero everywhere
  static constexpr bool condition_first = false;  // the first operand is a bool and not promoted
  static constexpr bool divides = false;      // integers by the second operand, which must not be 0
  static constexpr bool complex = false;      // the formulas hold for complex numbers too
  static constexpr bool real_result = false;  // and give a real number of a complex one
  static constexpr bool chooses = false;  // reads and selects values: also dtypes that only store
  static constexpr bool wraps = false;    // exact modulo 2^n: also uint16, uint32 and uint64
  static constexpr bool full_on_gpu = false;  // under autocast GPUs compute it in float32
  static constexpr unsigned saves_a = kNothing, saves_b = kNothing, saves_c = kNothing;
  // Where the op suite draws its samples from, and whether finite differences make sense there.
  static constexpr double low = -3, high = 3;
  // How far a result may be from the exact one; see Note [Bounds in ULP].
  static constexpr double ulp = 0.5;
  static constexpr double ulp_scale = 0;
  static constexpr bool ulp_of_operands = false;
  static constexpr double ulp_step = 0;
};
struct Unary : PointwiseBase {
  static constexpr int arity = 1;
};
struct Binary : PointwiseBase {
  static constexpr int arity = 2;
};
struct Ternary : PointwiseBase {
  static constexpr int arity = 3;
};

/// A constant or an attribute as a value of type V; for tensors it stays a Scalar.
template <class V>
struct Literal {
  TENSORA_HD static constexpr V of(Scalar value) { return value.to<V>(); }
};
template <>
struct Literal<Tensor> {
  static constexpr Scalar of(Scalar value) { return value; }
};
template <class V>
constexpr auto lit(Scalar value) {
  return Literal<V>::of(value);
}

}  // namespace tensora::functors
