#pragma once

#include <gtest/gtest.h>

#include "tensora/tensora.h"

namespace tensora::testing {

using Values = std::vector<double>;

/// The elements as doubles; empty for an undefined tensor.
inline Values values(const Tensor& tensor) {
  return tensor.defined() ? to_vector<double>(tensor) : Values{};
}

/// A float64 leaf that requires grad.
inline Tensor leaf(const Values& data) {
  return tensor(data, {.dtype = kFloat64}).requires_grad_();
}
inline Tensor constant(const Values& data) { return tensor(data, {.dtype = kFloat64}); }

/// The text of the Error that `body` throws; empty if it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tensora::testing
