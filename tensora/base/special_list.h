#pragma once

// The special functions that pointwise functors call by number: one functor serves them all.

namespace tensora::math {

/// Functions of one argument. Those from kBesselK0e on have no gradient in PyTorch.
enum SpecialFunctions : int {
  kBesselI0,
  kBesselI0e,
  kBesselI1,
  kBesselI1e,
  kBesselJ0,
  kBesselJ1,
  kBesselY0,
  kBesselY1,
  kBesselK0,
  kBesselK1,
  kErfcx,
  kNdtri,
  kLogNdtr,
  kEntr,
  kBesselK0e,
  kBesselK1e,
  kSphericalBesselJ0,
  kAiryAi,
};

/// Functions of two arguments: the polynomials are followed by their degree.
enum SpecialPairs : int {
  kZeta,
  kIgamma,
  kIgammac,
  kChebyshevT,
  kChebyshevU,
  kChebyshevV,
  kChebyshevW,
  kShiftedChebyshevT,
  kShiftedChebyshevU,
  kShiftedChebyshevV,
  kShiftedChebyshevW,
  kHermiteH,
  kHermiteHe,
  kLaguerreL,
  kLegendreP,
};

}  // namespace tensora::math
