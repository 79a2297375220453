// tensora-ops-sharded: every case of the op suite on inputs that several ranks have together, or
// that one process has divided (--in-process), with its gradients, against the same case on whole
// tensors. See Note [Stand-ins] in distributed/sharded_call.cpp and Note [Divided tensors] in
// dispatch/divided.h.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

#include "tensora/base/error_kinds.h"
#include "tensora/distributed/divided_tensor.h"
#include "tensora/distributed/sharded_call.h"
#include "tensora/distributed/threads.h"
#include "tests/suite/report.h"
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

using distributed::DeviceMesh;
using distributed::Placement;
using distributed::ShardedTensor;
using distributed::ShardedTensors;

constexpr int kExitFailed = 1, kExitUsage = 2;

struct OptOut {
  std::string_view name;  // of an op, or "op/case"
  std::string_view reason;
};
constexpr std::string_view kOwnGroup = "the case is about a group of one rank";
constexpr OptOut kOptOuts[] = {
    {"all_gather", kOwnGroup},
    {"all_reduce", kOwnGroup},
    {"all_to_all", kOwnGroup},
    {"broadcast", kOwnGroup},
    {"reduce_to", kOwnGroup},
    {"reduce_scatter", kOwnGroup},
    {"replicate_grad", kOwnGroup},
    {"index_fill/gradient of a value at repeated places", "the case computes a gradient itself"},
};

const OptOut* opt_out_of(const Case& sample) {
  for (const OptOut& known : kOptOuts)
    if (known.name == sample.op || known.name == sample.op + "/" + sample.name) return &known;
  return nullptr;
}

/// What one process computes: outputs, and gradients of the wanted inputs.
struct Expected {
  std::vector<size_t> wanted;
  std::vector<bool> recorded;  // outputs that have a gradient
  ArrayList outputs, seeds, gradients;
};

bool checks_gradients(const Check& check) {
  return check.dtype == kFloat64 && !check.sample.opt_out.contains(Mode::grad);
}

std::vector<size_t> wanted_inputs(const Check& check) {
  std::vector<size_t> result;
  if (!checks_gradients(check)) return result;
  const Case& sample = check.sample;
  if (sample.grad_inputs) {
    for (const int i : *sample.grad_inputs) result.push_back(static_cast<size_t>(i));
    return result;
  }
  for (size_t i = 0; i < sample.inputs.size(); ++i)
    if (!sample.inputs[i].dtype) result.push_back(i);
  return result;
}

Tensor tensor_of(const Array& values, DType dtype, Device device) {
  const Placed placed(values, dtype, contiguous_layout(values.sizes), device);
  return placed.tensor().clone();
}

// Random weights, and 0 where a result is not finite.
Array seed_for(const Array& output, Numbers& numbers) {
  Array weights = draw_weights(output.sizes, numbers);
  for (int64_t k = 0; k < output.numel(); ++k)
    if (!std::isfinite(output[k])) weights[k] = 0;
  return weights;
}

Expected in_one_process(const Check& check, const ArrayList& values) {
  Expected expected;
  expected.wanted = wanted_inputs(check);
  const Inputs inputs(check, values);
  std::vector<Tensor> leaves;
  for (const size_t i : expected.wanted) leaves.push_back(inputs[i].requires_grad_());
  const Out outputs = run(check, inputs.tensors());
  Numbers numbers(seed_of(check, 104));
  std::vector<Tensor> recorded, seeds;
  for (const Tensor& output : outputs) {
    expected.outputs.push_back(read(output));
    expected.recorded.push_back(output.requires_grad());
    expected.seeds.push_back(seed_for(expected.outputs.back(), numbers));
    if (!output.requires_grad()) continue;
    recorded.push_back(output);
    seeds.push_back(tensor_of(expected.seeds.back(), output.dtype(), check.setting.device));
  }
  if (recorded.empty()) return expected;
  const std::vector<Tensor> grads = grad(recorded, leaves, seeds, {.allow_unused = true});
  for (size_t k = 0; k < grads.size(); ++k)
    expected.gradients.push_back(grads[k].defined() ? read(grads[k]) : Array(leaves[k].sizes()));
  return expected;
}

/// How the inputs lie on the mesh.
struct Variant {
  std::string_view name;
  Placement (*of)(const Tensor& input, size_t i);
};
constexpr Variant kVariants[] = {
    {"sharded along the first dim",
     [](const Tensor& x, size_t) { return x.dim() > 0 ? Placement::shard(0) : Placement(); }},
    {"sharded along the last dim",
     [](const Tensor& x, size_t) { return x.dim() > 0 ? Placement::shard(-1) : Placement(); }},
    {"sharded along different dims",
     [](const Tensor& x, size_t i) {
       const auto dim = static_cast<int64_t>(i + 1);
       return x.dim() > 0 ? Placement::shard(dim % x.dim()) : Placement();
     }},
    {"the first input sharded, the others whole",
     [](const Tensor& x, size_t i) {
       return x.dim() > 0 && i == 0 ? Placement::shard(x.dim() > 1 ? 1 : 0) : Placement();
     }},
    {"partial",
     [](const Tensor& x, size_t) {
       return contains(kRealDTypes, x.dtype()) && x.is_floating_point() ? Placement::partial()
                                                                        : Placement();
     }},
};

/// Ops that had no rule for the shapes they got.
class Gathered {
 public:
  void add(std::string_view op) {
    const std::lock_guard lock(mutex_);
    ops_.emplace(op);
  }
  void print() const {
    std::printf("%zu ops were gathered for some of their cases:", ops_.size());
    for (const std::string& op : ops_) std::printf(" %s", op.c_str());
    std::printf("\n");
  }

 private:
  std::mutex mutex_;
  std::set<std::string> ops_;
};

/// One rank's part of a check.
class RankCheck {
 public:
  RankCheck(const Check& check, const ArrayList& values, const Expected& expected,
            Gathered& gathered)
      : check_(check),
        values_(values),
        expected_(expected),
        gathered_(gathered),
        mesh_(distributed::device_mesh({world_size()})) {}

  void run_as(const Variant& variant) {
    const ShardedTensors inputs = divided(variant);
    const ShardedTensors outputs =
        distributed::call_sharded([&](In stand_ins) { return run(check_, stand_ins); }, inputs,
                                  {.on_gather = [&](std::string_view op) { gathered_.add(op); }});
    require(outputs.size() == expected_.outputs.size(), variant.name, ": expected ",
            expected_.outputs.size(), " outputs, got ", outputs.size());
    std::vector<Tensor> recorded, seeds, whole;
    for (size_t i = 0; i < outputs.size(); ++i) {
      whole.push_back(outputs[i].full_tensor());
      require(whole[i].sizes() == expected_.outputs[i].sizes, variant.name, ": output ", i,
              " has shape ", whole[i].sizes(), " instead of ", expected_.outputs[i].sizes);
      if (!expected_.recorded[i]) continue;
      require(whole[i].requires_grad(), variant.name, ": output ", i, " has no gradient");
      recorded.push_back(whole[i]);
      seeds.push_back(tensor_of(expected_.seeds[i], whole[i].dtype(), check_.setting.device));
    }
    std::vector<Tensor> leaves;
    for (const size_t i : expected_.wanted) leaves.push_back(inputs[i].to_local());
    std::vector<Tensor> grads(leaves.size());
    if (!recorded.empty()) grads = grad(recorded, leaves, seeds, {.allow_unused = true});
    for (size_t i = 0; i < outputs.size(); ++i)
      require_close(read(whole[i]), expected_.outputs[i], tolerance(whole[i].dtype()),
                    concat(variant.name, ", output ", i));
    if (!recorded.empty()) compare_gradients(variant, inputs, grads);
  }

 private:
  static int64_t world_size() { return world()->size(); }

  // Sums of parts are rounded to a narrow dtype once more.
  Tolerance tolerance(DType dtype) const {
    return tolerance_of(dtype, (is_floating_point(dtype) ? 4 : 1) * check_.sample.tolerance);
  }

  ShardedTensors divided(const Variant& variant) const {
    const Inputs inputs(check_, values_);
    for (const size_t i : expected_.wanted) inputs[i].requires_grad_();
    ShardedTensors result;
    for (size_t i = 0; i < values_.size(); ++i)
      result.push_back(
          distributed::distribute_tensor(inputs[i], mesh_, {variant.of(inputs[i], i)}));
    return result;
  }

  void compare_gradients(const Variant& variant, const ShardedTensors& inputs,
                         const std::vector<Tensor>& grads) const {
    for (size_t k = 0; k < grads.size(); ++k) {
      const ShardedTensor& input = inputs[expected_.wanted[k]];
      Array got(input.sizes());
      if (grads[k].defined()) {
        const Placement placement = input.placements()[0];
        const ShardedTensor gradient(grads[k], mesh_,
                                     {placement.is_partial() ? Placement::replicate() : placement},
                                     input.sizes());
        got = read(gradient.full_tensor());
      }
      require_close(got, expected_.gradients[k], tolerance(kFloat64),
                    concat(variant.name, ", gradient of input ", expected_.wanted[k]));
    }
  }

  const Check& check_;
  const ArrayList& values_;
  const Expected& expected_;
  Gathered& gathered_;
  const DeviceMesh mesh_;
};

void check_sharded(const Check& check, int ranks, Gathered& gathered) {
  const ArrayList values = draw_inputs(check);
  const Expected expected = in_one_process(check, values);
  distributed::run_ranks(ranks,
                         [&](ProcessGroup&) {
                           RankCheck rank(check, values, expected, gathered);
                           for (const Variant& variant : kVariants) rank.run_as(variant);
                         },
                         {.limit = 60, .warn_after = 0});
}

/// The check on tensors that one process has divided among devices, of which each is the same.
class DividedCheck {
 public:
  DividedCheck(const Check& check, const ArrayList& values, const Expected& expected, int parts)
      : check_(check),
        values_(values),
        expected_(expected),
        devices_(static_cast<size_t>(parts), check.setting.device) {}

  void run_as(const Variant& variant) const {
    const Inputs inputs(check_, values_);
    std::vector<Tensor> divided, leaves;
    for (size_t i = 0; i < values_.size(); ++i) divided.push_back(inputs[i].clone());
    for (const size_t i : expected_.wanted) leaves.push_back(divided[i].requires_grad_());
    for (size_t i = 0; i < values_.size(); ++i) {
      const Placement placement = variant.of(divided[i], i);
      const auto axis = placement.is_shard() ? std::optional(placement.dim) : std::nullopt;
      distributed::shard_(divided[i], devices_, axis);
    }
    const Out outputs = run(check_, divided);
    require(outputs.size() == expected_.outputs.size(), variant.name, ": expected ",
            expected_.outputs.size(), " outputs, got ", outputs.size());
    std::vector<Tensor> recorded, seeds, grads(leaves.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      require(outputs[i].sizes() == expected_.outputs[i].sizes, variant.name, ": output ", i,
              " has shape ", outputs[i].sizes(), " instead of ", expected_.outputs[i].sizes);
      if (!expected_.recorded[i]) continue;
      require(outputs[i].requires_grad(), variant.name, ": output ", i, " has no gradient");
      recorded.push_back(outputs[i]);
      seeds.push_back(tensor_of(expected_.seeds[i], outputs[i].dtype(), check_.setting.device));
    }
    if (!recorded.empty()) grads = grad(recorded, leaves, seeds, {.allow_unused = true});
    for (size_t k = 0; !recorded.empty() && k < grads.size(); ++k)
      require_close(grads[k].defined() ? read(grads[k]) : Array(leaves[k].sizes()),
                    expected_.gradients[k], tolerance(kFloat64),
                    concat(variant.name, ", gradient of input ", expected_.wanted[k]));
    for (size_t i = 0; i < outputs.size(); ++i)
      require_close(read(outputs[i]), expected_.outputs[i], tolerance(outputs[i].dtype()),
                    concat(variant.name, ", output ", i));
  }

 private:
  Tolerance tolerance(DType dtype) const {
    return tolerance_of(dtype, (is_floating_point(dtype) ? 4 : 1) * check_.sample.tolerance);
  }

  const Check& check_;
  const ArrayList& values_;
  const Expected& expected_;
  const std::vector<Device> devices_;
};

void check_divided(const Check& check, int parts) {
  const ArrayList values = draw_inputs(check);
  const Expected expected = in_one_process(check, values);
  const DividedCheck divided(check, values, expected, parts);
  for (const Variant& variant : kVariants) divided.run_as(variant);
}

/// What call_sharded refuses by name: cases that compute gradients themselves, or write to inputs.
bool is_refusal(const std::string& message) {
  for (const char* const reason :
       {"inside of the function", "cannot be written to in place",
        "which cannot be sharded tensors", "which cannot be divided tensors"})
    if (message.find(reason) != std::string::npos) return true;
  return false;
}

int run_all(int ranks, bool in_process, const Options& options) {
  const Setting setting{.device = options.device, .seed = options.seed, .quick = options.quick};
  Cases cases;
  add_all_cases(cases);
  Report report;
  Gathered gathered;
  std::set<std::string> refused;
  for (const Case& sample : cases.samples) {
    if (sample.big || sample.inputs.empty() || !selects(options, sample.op, sample.name)) continue;
    for (const DType dtype : sample.dtypes) {
      const auto& wanted = options.dtypes;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), dtype) == wanted.end())
        continue;
      if (options.quick && dtype != sample.dtypes.back()) continue;
      const Result what{
          .op = sample.op,
          .sample = concat(sample.name, " on ", ranks, in_process ? " devices" : " ranks"),
          .dtype = std::string(tensora::name(dtype))};
      if (const OptOut* const out = opt_out_of(sample)) {
        report.skip(what, std::string(out->reason));
        continue;
      }
      report.run(what, [&] {
        const UnderTest under_test(setting.device, dtype);
        try {
          if (in_process)
            check_divided({sample, dtype, setting}, ranks);
          else
            check_sharded({sample, dtype, setting}, ranks, gathered);
        } catch (const NotImplementedError& error) {
          if (!is_refusal(error.what())) throw;
          refused.insert(sample.op + "/" + sample.name);
        }
        return std::string();
      });
    }
  }
  check(!report.empty(), "no check fits the options");
  if (!in_process) gathered.print();
  std::printf("%zu cases are refused, for they ask for gradients or write to inputs themselves\n",
              refused.size());
  report.print_summary();
  return report.failed() ? kExitFailed : 0;
}

}  // namespace
}  // namespace tensora::suite

int main(int argc, char** argv) {
  using namespace tensora::suite;
  try {
    tensora::check(argc >= 3 && std::strcmp(argv[1], "--ranks") == 0,
                   "usage: tensora-ops-sharded --ranks N [--in-process] [options of tensora-ops]");
    const std::string_view text = argv[2];
    int ranks = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
    tensora::check(error == std::errc() && end == text.data() + text.size() && ranks >= 1,
                   "--ranks: expected a number from 1, got '", text, "'");
    const bool in_process = argc > 3 && std::strcmp(argv[3], "--in-process") == 0;
    const int begin = in_process ? 4 : 3;
    return run_all(ranks, in_process,
                   parse_options({argv + begin, static_cast<size_t>(argc - begin)}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensora-ops-sharded: %s\n", error.what());
    return kExitUsage;
  }
}
