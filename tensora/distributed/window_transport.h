#pragma once

#include <memory>

#include "tensora/distributed/transport.h"
#include "tensora/distributed/window.h"

namespace tensora::distributed {

/// Collectives of the ranks of one host, through memory that they share.
std::unique_ptr<Transport> make_window_transport(Windows windows, std::shared_ptr<Watch> watch);

}  // namespace tensora::distributed
