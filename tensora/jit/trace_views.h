#pragma once

// Internal header

#include "tensora/jit/graph.h"

namespace tensora::jit {

/// trace(), with the views of the graph as the function took them: the input of a view node is the
/// tensor that the op was called on, not the root of its storage, and `op` and `attrs` say which
/// view it took. An exporter needs that, because other formats have ops and no strides. A node that
/// extracts a tensor again after a write has no op.
Graph trace_views(const Function& function, std::span<const Tensor> inputs);

}  // namespace tensora::jit
