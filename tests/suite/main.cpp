// tensora-ops: every op through every mode. See cases.h for how ops join in.
#include <algorithm>
#include <cstdio>

#include "tensora/dispatch/op.h"
#include "tests/suite/mistakes.h"
#include "tests/suite/tables.h"

namespace tensora::suite {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2;
constexpr int kExitNoDevice = 77;  // which ctest takes for "skipped"

using CheckFunction = void (*)(const Check&);

CheckFunction function_of(Mode mode) {
  switch (mode) {
    case Mode::value:
      return check_value;
    case Mode::grad:
      return check_grad;
    case Mode::view:
      return check_view;
    case Mode::inplace:
      return check_inplace_form;
    case Mode::determinism:
      return check_determinism;
    case Mode::meta:
      return check_meta;
    case Mode::jit:
      return check_jit;
    default:
      return nullptr;
  }
}

// Whether a mode has anything to say about a case; unlike an opt-out this needs no reason.
bool applies(Mode mode, const Case& sample) {
  switch (mode) {
    case Mode::perf:
      return sample.big;
    case Mode::determinism:
      return true;
    case Mode::inplace:
      return !sample.big && sample.inplace != nullptr;
    case Mode::view:
      return !sample.big && !sample.inputs.empty();
    case Mode::grad:
      return !sample.big && !sample.inputs.empty();
    default:
      return !sample.big;
  }
}

std::vector<DType> dtypes_of(Mode mode, const Case& sample, const Options& options) {
  std::vector<DType> result;
  for (DType dtype : sample.dtypes) {
    if (mode == Mode::grad && dtype != kFloat64) continue;
    if (!options.dtypes.empty() &&
        std::find(options.dtypes.begin(), options.dtypes.end(), dtype) == options.dtypes.end())
      continue;
    result.push_back(dtype);
  }
  // Timing, and repeating what is large, is done in one dtype.
  if (sample.big && result.size() > 1) {
    const bool single = std::find(result.begin(), result.end(), kFloat32) != result.end();
    result = {single ? kFloat32 : result.front()};
  }
  return result;
}

// A subsample that depends on names alone: about a third of the checks.
bool sampled(const Check& check) {
  if (!check.setting.quick) return true;
  uint64_t hash = static_cast<uint64_t>(check.dtype) * 0x9e3779b97f4a7c15u;
  for (char letter : check.sample.op + check.sample.name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return (hash >> 32) % 3 == 0;
}

void run_case(Mode mode, const Case& sample, const Options& options, const Setting& setting,
              Report& report) {
  if (!applies(mode, sample)) return;
  for (DType dtype : dtypes_of(mode, sample, options)) {
    const Check check{sample, dtype, setting};
    if (!sampled(check)) continue;
    const Result what{.op = sample.op,
                      .sample = sample.name,
                      .dtype = std::string(tensora::name(dtype)),
                      .mode = mode};
    if (const auto reason = sample.opt_out.find(mode); reason != sample.opt_out.end()) {
      report.skip(what, reason->second);
      continue;
    }
    report.run(what, [&] {
      const UnderTest under_test(setting.device, dtype);
      if (mode != Mode::perf) {
        function_of(mode)(check);
        return std::string();
      }
      const std::string figures = measure(check);
      std::printf("%-44s %-9s %s\n", (sample.op + "/" + sample.name).c_str(), what.dtype.c_str(),
                  figures.c_str());
      return figures;
    });
  }
}

void run_mode(Mode mode, const Cases& cases, const Options& options, const Setting& setting,
              Report& report) {
  if (mode == Mode::support) return write_support_table(cases, options, setting, report);
  if (mode == Mode::ulp) return check_ulp(options, setting, report);
  if (mode == Mode::coverage) return check_coverage(cases, options, setting, report);
  if (mode == Mode::error) {
    for (const ErrorCase& mistake : cases.errors)
      if (selects(options, mistake.op, mistake.name))
        report.run({.op = mistake.op, .sample = mistake.name, .dtype = "-", .mode = mode}, [&] {
          const UnderTest under_test(setting.device, kFloat32);
          check_error(mistake);
          return std::string();
        });
    return;
  }
  for (const Case& sample : cases.samples)
    if (selects(options, sample.op, sample.name)) run_case(mode, sample, options, setting, report);
}

void list_cases(const Cases& cases, const Options& options) {
  for (const Case& sample : cases.samples) {
    if (!selects(options, sample.op, sample.name)) continue;
    std::printf("%s/%s%s\n", sample.op.c_str(), sample.name.c_str(), sample.big ? " (big)" : "");
    for (const auto& [mode, reason] : sample.opt_out)
      std::printf("    not in %s: %s\n", std::string(name(mode)).c_str(), reason.c_str());
  }
  for (const ErrorCase& mistake : cases.errors)
    if (selects(options, mistake.op, mistake.name))
      std::printf("%s/%s (error)\n", mistake.op.c_str(), mistake.name.c_str());
}

// Why the device cannot be used; empty if it can.
std::string missing(Device device) {
  if (std::string reason = unavailable_reason(device.type); !reason.empty()) return reason;
  try {
    require_device(device);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Leaves the kernels of primitives: all other ops run as they do on a device that lacks theirs. The
// pointwise gradients stay, whose formula and kernel are one text.
void drop_kernels_of_defined_ops(DeviceType device) {
  for (const OpBase* op : op_registry().all())
    if (op->has_reference && !op->pointwise) op->kernels[static_cast<int>(device)] = nullptr;
}

int run(const Options& options) {
  if (options.help) {
    std::printf("%s", usage().c_str());
    return 0;
  }
  if (const std::string reason = missing(options.device); !reason.empty()) {
    std::fprintf(stderr, "tensora-ops: %s cannot be used: %s\n", to_string(options.device).c_str(),
                 reason.c_str());
    return kExitNoDevice;
  }
  const Setting setting{.device = options.device,
                        .seed = options.seed,
                        .quick = options.quick,
                        .max_threads = get_num_threads()};
  const UnderTest under_test(options.device, kFloat32);
  Cases cases;
  add_all_cases(cases);
  general_mistakes(cases);
  if (options.list) {
    list_cases(cases, options);
    return 0;
  }
  if (options.definitions) drop_kernels_of_defined_ops(options.device.type);
  Report report;
  for (Mode mode : options.modes) run_mode(mode, cases, options, setting, report);
  check(!report.empty(), "no check fits the options; --list shows what there is");
  if (!options.json_path.empty()) report.write_json(options.json_path, options);
  report.print_summary();
  return report.failed() ? kExitFailed : 0;
}

}  // namespace
}  // namespace tensora::suite

int main(int argc, char** argv) {
  using namespace tensora::suite;
  try {
    return run(parse_options({argv + 1, static_cast<size_t>(argc - 1)}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensora-ops: %s\n", error.what());
    return kExitUsage;
  }
}
