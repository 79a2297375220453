#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// GET /health: the process is alive. GET /ready: a model is loaded and requests are taken, else
/// 503. Both are public and answered on the I/O thread. The service must outlive the routes.
void add_status_routes(Router& router, const Service& service);

}  // namespace tensora::serve
