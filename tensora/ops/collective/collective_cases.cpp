#include "tensora/ops/collective/collective.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// In a world of one every collective gives back what it gets. Worlds of several ranks are in
// tests/distributed.
Case same(const char* op, const char* name, std::vector<DType> dtypes,
          const std::function<Tensor(const Tensor&)>& run) {
  return {.op = op,
          .name = name,
          .inputs = {{{2, 4, 3}}},
          .run = [run](In x) { return suite::one(run(x[0])); },
          .reference = [](Arrays x) { return suite::one(x[0]); },
          .dtypes = std::move(dtypes)};
}

}  // namespace

void collective_cases(Cases& cases) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::maximum}) {
    Case sample = same("all_reduce", "one rank", number_dtypes(),
                       [op](const Tensor& x) { return collective::all_reduce(x, op); });
    if (op != ReduceOp::sum) sample.opt_out[Mode::grad] = "sums and averages alone have gradients";
    cases.add(std::move(sample));
  }
  cases.add(same("all_reduce", "average of one rank", floating_dtypes(),
                 [](const Tensor& x) { return collective::all_reduce(x, ReduceOp::average); }));
  Case replicated = same("replicate_grad", "one rank", floating_dtypes(),
                         [](const Tensor& x) { return collective::replicate_grad(x); });
  replicated.is_view = true;
  cases.add(std::move(replicated));
  cases.add(same("all_gather", "last dim", number_dtypes(),
                 [](const Tensor& x) { return collective::all_gather(x, -1); }));
  cases.add(same("reduce_scatter", "dim 1", number_dtypes(),
                 [](const Tensor& x) { return collective::reduce_scatter(x, ReduceOp::sum, 1); }));
  cases.add(same("all_to_all", "from dim 0 to dim 1", number_dtypes(),
                 [](const Tensor& x) { return collective::all_to_all(x, 0, 1); }));
  cases.add(same("broadcast", "one rank", number_dtypes(),
                 [](const Tensor& x) { return collective::broadcast(x); }));
  cases.add(same("reduce_to", "one rank", number_dtypes(),
                 [](const Tensor& x) { return collective::reduce(x); }));
  cases.error("all_reduce", "unknown group", "no process group is named \"pipeline\"",
              [] { collective::all_reduce(zeros({2}), ReduceOp::sum, "pipeline"); });
  cases.error("broadcast", "unknown root", "rank 1 is not in a group of 1",
              [] { collective::broadcast(zeros({2}), 1); });
  cases.error("all_gather", "dim out of range", "out of range",
              [] { collective::all_gather(zeros({2}), 1); });
}

}  // namespace tensora::suite
