#include "tensora/serve/openai_routes.h"

namespace tensora::serve {

void add_openai_routes(Router& router, Service& service) {
  add_openai_model_routes(router, service);
  add_openai_chat_routes(router, service);
  add_openai_completion_routes(router, service);
  add_openai_embedding_routes(router, service);
}

}  // namespace tensora::serve
