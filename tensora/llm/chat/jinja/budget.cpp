#include "tensora/llm/chat/jinja/budget.h"

#include "tensora/base/check.h"

namespace tensora::llm::jinja {

thread_local Budget* Budget::current_ = nullptr;

Budget::Budget(int64_t steps) : limit_(steps), left_(steps), before_(current_) { current_ = this; }

Budget::~Budget() { current_ = before_; }

void charge(int64_t steps) {
  Budget* budget = Budget::current_;
  if (!budget) return;
  check(steps <= budget->left_, "more than ", budget->limit_, " steps");
  budget->left_ -= steps;
}

}  // namespace tensora::llm::jinja
