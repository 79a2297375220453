#pragma once

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

#include "tensora/base/check.h"

namespace tensora::torch {

/// Whether LibTorch had no memory left. Its allocator on the CPU throws no class of its own.
inline bool is_out_of_memory(const c10::Error& error) {
  const std::string_view text = error.what_without_backtrace();
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         text.find("DefaultCPUAllocator: can't allocate memory") != text.npos;
}

/// Runs `body`; what LibTorch throws becomes an Error of Tensora, without LibTorch's stack trace.
template <class Body>
auto translated(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError("LibTorch: the system has no memory left");
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error))
      throw OutOfMemoryError(concat("LibTorch: ", error.what_without_backtrace()));
    fail("LibTorch: ", error.what_without_backtrace());
  }
}

}  // namespace tensora::torch
