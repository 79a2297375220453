#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// {"error": "text"}
HttpResponse ollama_error(const ApiError& error);

/// Ollama's /api/chat and /api/generate.
void add_ollama_answer_routes(Router& router, Service& service);
/// Ollama's /api/version, tags, ps, show, embed and embeddings; what would change the models
/// (pull, push, create, copy) is refused.
void add_ollama_model_routes(Router& router, Service& service);
/// All of these. The service must outlive the routes.
void add_ollama_routes(Router& router, Service& service);

/// The name of a model without the tag that Ollama's clients add to names without one.
std::string without_latest(std::string name);
/// "2026-11-18T05:30:00.123456789Z"; without an argument, now.
std::string iso_time(int64_t nanoseconds = -1);

}  // namespace tensora::serve
