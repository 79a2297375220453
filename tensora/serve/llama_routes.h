#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// llama.cpp's POST /completion and /infill.
void add_llama_completion_routes(Router& router, Service& service);
/// POST /v1/rerank: documents by their relevance to a query.
void add_rerank_routes(Router& router, Service& service);
/// llama.cpp's /tokenize, /detokenize, /apply-template, /slots and /lora-adapters.
void add_llama_tool_routes(Router& router, Service& service);
/// All of these. The service must outlive the routes.
void add_llama_routes(Router& router, Service& service);

}  // namespace tensora::serve
