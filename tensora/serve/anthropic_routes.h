#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// {"type": "error", "error": {"type", "message"}}
HttpResponse anthropic_error(const ApiError& error);

/// Anthropic's POST /v1/messages and /v1/messages/count_tokens. The service must outlive the
/// routes.
void add_anthropic_routes(Router& router, Service& service);

}  // namespace tensora::serve
