// The functors that are linear in all of their operands: how they may be divided.
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/pointwise/pointwise.h"

namespace tensora {

void register_linear_functors(OpRegistry&) {
  for (const OpBase* op : {static_cast<const OpBase*>(&pointwise_op<functors::Add>()),
                           static_cast<const OpBase*>(&pointwise_op<functors::Sub>()),
                           static_cast<const OpBase*>(&pointwise_op<functors::Neg>())})
    shard_by(*op, "linear *->*");
}

}  // namespace tensora
