#pragma once

// Internal header: what is left out of a tape before its nodes are grouped into kernels.

#include "tensora/jit/tape.h"

namespace tensora::jit {

/// Nodes that need not run.
struct Rewrite {
  /// Memories, and another one that has the same contents wherever they are read. Their nodes are
  /// left out.
  std::vector<std::pair<int, int>> merges;
  /// Nodes that were left out for one before them. Their attributes are equal in the tape that the
  /// plan was made for, and must be in others that it is used for.
  std::vector<std::pair<uint32_t, uint32_t>> equals;
  std::vector<bool> left_out;  // per node
  int equal = 0, unused = 0;   // how many were left out by which pass
};

/// Common subexpressions: a node that does what an earlier one has done, to the same contents, and
/// whose results nobody but the tape sees.
void merge_equal_nodes(const Tape& tape, Rewrite& rewrite);
/// Whether the same nodes can be left out of a tape that is equal up to attributes.
bool merges_hold(const Tape& tape, const Rewrite& rewrite);
/// Nodes whose results are never read, by a kernel or from outside. The merges are in the tape.
void leave_out_unused_nodes(const Tape& tape, Rewrite& rewrite);

}  // namespace tensora::jit
