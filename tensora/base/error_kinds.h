#pragma once

#include <concepts>

#include "tensora/base/check.h"

// Kinds of errors that PyTorch tells apart. A C++ program catches `Error`, which all of them are;
// in Python they are raised as the built-in types of the same names, which programs catch by type.

namespace tensora {

/// An argument has the right type and a value that is not allowed.
class ValueError : public Error {
 public:
  using Error::Error;
};
/// An index or a dim is out of range.
class IndexError : public Error {
 public:
  using Error::Error;
};
/// An argument is of a type or dtype that the function does not take.
class TypeError : public Error {
 public:
  using Error::Error;
};
/// The function exists, but not for this dtype or these options.
class NotImplementedError : public Error {
 public:
  using Error::Error;
};

/// `check` that throws one of these kinds: `check_as<ValueError>(p >= 0, "dropout: p must …")`.
template <std::derived_from<Error> Kind, class... Parts>
constexpr void check_as(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw Kind(concat(parts...));
}

}  // namespace tensora
