#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// GET /metrics: all figures, as Prometheus reads them. GET /props: what the server serves, with
/// the defaults of sampling and where each model's memory is. The service must outlive the routes.
void add_metrics_routes(Router& router, Service& service);

}  // namespace tensora::serve
