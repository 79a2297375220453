#pragma once

namespace tensora {

/// Whether this thread runs the body of a checkpoint for the second time, in backward. What only
/// leaves the body need not be computed then: backward reads it nowhere.
bool is_checkpoint_rerun();

}  // namespace tensora
