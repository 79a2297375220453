#pragma once

#include <c10/util/Exception.h>

#include "tensora/base/check.h"

namespace tensora::torch {

/// Runs `body`; what LibTorch throws becomes an Error of Tensora, without LibTorch's stack trace.
template <class Body>
auto translated(const Body& body) {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemoryError(concat("LibTorch: ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    fail("LibTorch: ", error.what_without_backtrace());
  }
}

}  // namespace tensora::torch
