#include "tensora/optim/adamw.h"

namespace tensora::optim {

AdamW::AdamW(Parameters params, const AdamWOptions& o)
    : Adam("AdamW", std::move(params),
           {.lr = o.lr,
            .betas = o.betas,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .amsgrad = o.amsgrad,
            .maximize = o.maximize,
            .capturable = o.capturable,
            .decoupled_weight_decay = true,
            .master_weights = o.master_weights,
            .narrow_states = o.narrow_states}) {}

void AdamW::update(ParamGroup& group) {
  group.set("decoupled_weight_decay", true);  // even if an Adam's state was loaded
  Adam::update(group);
}

}  // namespace tensora::optim
