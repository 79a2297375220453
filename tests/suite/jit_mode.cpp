// The `jit` mode: a case that is traced and compiled does what it does eagerly, to the inputs of
// the trace and to others of the same sort.
#include "tensora/jit/fuse.h"
#include "tensora/jit/lazy.h"
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

void require_same(const Check& check, const Out& got, const Out& expected, std::string_view what) {
  require(got.size() == expected.size(), what, ": expected ", expected.size(), " outputs, got ",
          got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    require(got[i].dtype() == expected[i].dtype() && got[i].device() == expected[i].device(), what,
            ": output ", i, " is ", got[i].dtype(), " on ", got[i].device(), " instead of ",
            expected[i].dtype(), " on ", expected[i].device());
    require(got[i].strides() == expected[i].strides() || got[i].numel() == 0, what, ": output ", i,
            " has strides ", got[i].strides(), " instead of ", expected[i].strides());
    require_close(read(got[i]), read(expected[i]),
                  tolerance_of(got[i].dtype(), check.sample.tolerance),
                  concat(what, ", output ", i));
  }
}

/// Runs a function fused and eagerly, each on inputs of its own, and compares what comes out and
/// what became of the inputs.
void compare(const Check& check, const jit::Fused& fused, const jit::Function& eager,
             const ArrayList& values, const std::function<Layout(const Shape&, size_t)>& layout,
             std::string_view what) {
  const Inputs here(check, values, layout), there(check, values, layout);
  manual_seed(check.setting.seed);
  Out expected = eager(there.tensors());
  manual_seed(check.setting.seed);
  Out got = fused.run(here.tensors());
  require_same(check, got, expected, what);
  for (size_t i = 0; i < values.size(); ++i) {
    require_close(read(here[i]), read(there[i]),
                  tolerance_of(here[i].dtype(), check.sample.tolerance),
                  concat(what, ", input ", i, " afterwards"));
    here.placed(i).require_guards_intact(concat(what, ", input ", i));
  }
}

/// The same in a lazy scope: the bits are those of eager execution.
void compare_lazy(const Check& check, const jit::Function& function, std::string_view what) {
  const ArrayList drawn = draw_inputs(check);
  const auto plain = [](const Shape& sizes, size_t) { return contiguous_layout(sizes); };
  const Inputs here(check, drawn, plain), there(check, drawn, plain);
  manual_seed(check.setting.seed);
  const Out expected = function(there.tensors());
  manual_seed(check.setting.seed);
  Out got;
  {
    const LazyScope lazy({.fuse = Fuse::everything});
    got = function(here.tensors());
  }
  require_same(check, got, expected, concat(what, ", in a lazy scope"));
  for (size_t i = 0; i < drawn.size(); ++i) {
    require_close(read(here[i]), read(there[i]),
                  tolerance_of(here[i].dtype(), check.sample.tolerance),
                  concat(what, ", in a lazy scope, input ", i, " afterwards"));
    here.placed(i).require_guards_intact(concat(what, ", in a lazy scope, input ", i));
  }
}

void compare_everywhere(const Check& check, const jit::Function& function, std::string_view what) {
  const auto plain = [](const Shape& sizes, size_t) { return contiguous_layout(sizes); };
  Setting reseeded = check.setting;
  ++reseeded.seed;
  const Check again{check.sample, check.dtype, reseeded};
  compare_lazy(check, function, what);
  const jit::Fused fused(function);
  compare(check, fused, function, draw_inputs(check), plain, concat(what, ", traced inputs"));
  compare(again, fused, function, draw_inputs(again), plain, concat(what, ", other inputs"));
  require(fused.statistics().misses == 1, what, ": the second call was traced again");
  if (check.sample.inputs.empty() || check.sample.opt_out.contains(Mode::view)) return;
  for (size_t k : {size_t{0}, strided_layouts().size() - 1}) {
    const NamedLayout& layout = strided_layouts()[k];
    compare(
        check, fused, function, draw_inputs(check),
        [&](const Shape& sizes, size_t) { return layout.of(sizes); },
        concat(what, ", ", layout.name));
  }
}

// A mistake is one in either way: in-place forms refuse results that do not fit.
bool inplace_form_runs(const Check& check) {
  const Inputs inputs(check, draw_inputs(check));
  try {
    run_inplace(check, inputs.tensors());
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

void check_jit(const Check& check) {
  const no_grad silent;
  const Case& sample = check.sample;
  compare_everywhere(check, sample.run, "out of place");
  if (!sample.inplace) return;
  const jit::Function inplace = [&](In inputs) {
    sample.inplace(inputs);
    return Out{inputs[0]};
  };
  if (inplace_form_runs(check)) return compare_everywhere(check, inplace, "in place");
  const Inputs inputs(check, draw_inputs(check));
  try {
    jit::Fused(inplace).run(inputs.tensors());
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return inputs.require_unchanged();
  }
  throw Failure("the in-place form throws, but not when it is traced");
}

}  // namespace tensora::suite
