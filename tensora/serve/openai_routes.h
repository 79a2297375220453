#pragma once

#include "tensora/serve/router.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// POST /v1/chat/completions and /chat/completions. The service must outlive the routes.
void add_openai_chat_routes(Router& router, Service& service);
/// POST /v1/completions.
void add_openai_completion_routes(Router& router, Service& service);
/// GET /v1/models, /v1/models/{id}.
void add_openai_model_routes(Router& router, Service& service);
/// POST /v1/embeddings and /embeddings.
void add_openai_embedding_routes(Router& router, Service& service);
/// All of these.
void add_openai_routes(Router& router, Service& service);

}  // namespace tensora::serve
