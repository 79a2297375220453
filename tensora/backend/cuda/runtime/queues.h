#pragma once

namespace tensora::cuda {

/// Makes the streams known to tensora/core/queue.h.
void register_queues();

}  // namespace tensora::cuda
