// The `jit` mode: a case that is deferred, compiled, replayed or traced does what it does eagerly.
#include "tensora/jit/compile.h"
#include "tensora/jit/graph.h"
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

using Layouts = std::function<Layout(const Shape&, size_t)>;

/// Runs a function in another way and eagerly, each on inputs of its own, and compares what comes
/// out and what became of the inputs.
void compare(const Check& check, const jit::Function& other, const jit::Function& eager,
             const Layouts& layout, std::string_view what) {
  const ArrayList values = draw_inputs(check);
  const Inputs here(check, values, layout), there(check, values, layout);
  manual_seed(check.setting.seed);
  const Out expected = eager(there.tensors());
  manual_seed(check.setting.seed);
  const Out got = other(here.tensors());
  require_same(check, got, expected, what);
  for (size_t i = 0; i < values.size(); ++i) {
    require_close(read(here[i]), read(there[i]),
                  tolerance_of(here[i].dtype(), check.sample.tolerance),
                  concat(what, ", input ", i, " afterwards"));
    here.placed(i).require_guards_intact(concat(what, ", input ", i));
  }
}

/// The case in a lazy scope, as a compiled function that is called again, and as a graph.
void compare_everywhere(const Check& check, const jit::Function& function, std::string_view what) {
  const Layouts plain = [](const Shape& sizes, size_t) { return contiguous_layout(sizes); };
  const jit::Function lazily = [&](In inputs) {
    const LazyScope lazy({.fuse = Fuse::everything});
    return function(inputs);
  };
  compare(check, lazily, function, plain, concat(what, ", in a lazy scope"));
  const auto compiled = compile([&](const std::vector<Tensor>& inputs) { return function(inputs); },
                                {.fuse = Fuse::everything, .replay = true});
  const jit::Function replayed = [&](In inputs) {
    return compiled(std::vector<Tensor>(inputs.begin(), inputs.end()));
  };
  std::optional<jit::Graph> graph;
  const jit::Function traced = [&](In inputs) {
    if (!graph) graph = jit::trace(function, inputs);
    return jit::run(*graph, inputs);
  };
  Setting setting = check.setting;
  for (const char* const call : {"first call", "second call", "third call"}) {
    const Check again{check.sample, check.dtype, setting};
    compare(again, replayed, function, plain, concat(what, ", compiled, ", call));
    if (setting.seed != check.setting.seed + 1)
      compare(again, traced, function, plain, concat(what, ", traced, ", call));
    ++setting.seed;
  }
  if (check.sample.inputs.empty() || check.sample.opt_out.contains(Mode::view)) return;
  for (size_t k : {size_t{0}, strided_layouts().size() - 1}) {
    const NamedLayout& layout = strided_layouts()[k];
    const Layouts strided = [&](const Shape& sizes, size_t) { return layout.of(sizes); };
    compare(check, replayed, function, strided, concat(what, ", compiled, ", layout.name));
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
    jit::trace(inplace, inputs.tensors());
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return inputs.require_unchanged();
  }
  throw Failure("the in-place form throws, but not when it is traced");
}

}  // namespace tensora::suite
