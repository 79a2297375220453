#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// OpenAI's POST /v1/responses and /v1/responses/input_tokens, without storage. The service must
/// outlive the routes.
void add_responses_routes(Router& router, Service& service);

}  // namespace tensora::serve
