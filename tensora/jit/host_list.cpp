#include "tensora/jit/host_list.h"

#include <algorithm>

#include "tensora/base/thread_pool.h"
#include "tensora/jit/host_chain.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

constexpr int64_t kTask = 16 * 1024;  // elements worth waking a thread for

bool is_one_chain(const HostPlan& plan) {
  return plan.stages.size() == 1 && plan.stages[0].chained &&
         plan.program.kind == TileProgram::Kind::walk &&
         std::none_of(plan.program.steps.begin(), plan.program.steps.end(),
                      [](const Step& step) { return step.kind == Step::Kind::number; });
}

bool is_flat(const TileCall& call) {
  const int64_t count = call.sizes.numel();
  const auto runs = [&](const View* view) {
    return view->numel == 1 || (view->numel == count && view->contiguous);
  };
  return count > 0 && std::all_of(call.inputs.begin(), call.inputs.end(), runs) &&
         std::all_of(call.results.begin(), call.results.end(),
                     [&](const View* view) { return view->numel == count && view->contiguous; });
}

/// One thread's part of a list.
class Runner {
 public:
  explicit Runner(const HostPlan& plan) : plan_(plan), chain_(plan.stages[0].chain) {}

  void run(const TileCall& call) {
    attrs_.clear();
    for (size_t i = 0; i < plan_.program.steps.size(); ++i) {
      const void* const given = i < call.attrs.size() ? call.attrs[i] : nullptr;
      attrs_.push_back(given ? given : plan_.program.steps[i].attrs.get());
    }
    if (!runner_)
      runner_.emplace(chain_, attrs_);
    else
      runner_->set_attrs(attrs_);
    arrays_.clear();
    for (const ChainPlan::External& external : chain_.externals) {
      const View& view = external.write ? *call.results[static_cast<size_t>(external.result)]
                                        : *call.inputs[static_cast<size_t>(external.value)];
      TileArray& array = arrays_.emplace_back();
      array.data = view.as<char>();
      array.dtype = view.dtype;
      array.strides.push_back(view.numel == 1 ? 0 : 1);
      if (external.write) array.strides[0] = 1;
    }
    runner_->run(Shape{call.sizes.numel()}, arrays_);
  }

 private:
  const HostPlan& plan_;
  const ChainPlan& chain_;
  std::optional<ChainRunner> runner_;
  std::vector<const void*> attrs_;
  std::vector<TileArray> arrays_;
};

}  // namespace

bool run_list(const HostPlan& plan, std::span<const TileCall> calls) {
  if (!is_one_chain(plan) || !std::all_of(calls.begin(), calls.end(), is_flat)) return false;
  int64_t elements = 0;
  for (const TileCall& call : calls) elements += call.sizes.numel();
  const auto count = static_cast<int64_t>(calls.size());
  const int64_t grain = std::max<int64_t>(1, kTask * count / std::max<int64_t>(elements, 1));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    Runner runner(plan);
    for (int64_t i = begin; i < end; ++i) runner.run(calls[static_cast<size_t>(i)]);
  });
  return true;
}

}  // namespace tensora::jit
