#pragma once

#include "tensora/io/state.h"

namespace tensora::io {

/// A copy of the value on the CPU that nobody else writes to, for example while a run goes on.
/// Tensors that share memory share it in the copy, with the same strides.
Value snapshot(const Value& value);

}  // namespace tensora::io
