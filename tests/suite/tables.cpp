#include "tests/suite/tables.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>
#include <set>

#include "tensora/dispatch/op.h"
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

double seconds_of(const Check& check, const Inputs& inputs) {
  const auto begin = std::chrono::steady_clock::now();
  const Out outputs = run(check, inputs.tensors());
  synchronize(check.setting.device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Gradients of the sum of all outputs; whether any arrived.
bool run_backward(const Check& check) {
  const Inputs inputs(check, draw_inputs(check));
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < check.sample.inputs.size(); ++i)
    if (!check.sample.inputs[i].dtype && inputs[i].is_floating_point())
      leaves.push_back(inputs[i].requires_grad_());
  std::vector<Tensor> outputs, seeds;
  for (const Tensor& output : run(check, inputs.tensors())) {
    if (!output.requires_grad()) continue;
    outputs.push_back(output);
    seeds.push_back(ones_like(output));
  }
  if (leaves.empty() || outputs.empty()) return false;
  const std::vector<Tensor> grads = grad(outputs, leaves, seeds, {.allow_unused = true});
  return std::any_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
}

bool succeeds(const std::function<bool()>& body) {
  try {
    return body();
  } catch (const std::exception&) {
    return false;
  }
}

constexpr DType kColumns[] = {kBool,      kUInt8,      kInt8,       kInt16,     kInt32,
                              kInt64,     kFloat16,    kBFloat16,   kFloat32,   kFloat64,
                              kComplex64, kComplex128, kFloat8E4M3, kFloat8E5M2};

// "yes", "grad" where gradients flow too, or "".
std::string support_of(const Case& sample, DType dtype, const Setting& setting) {
  const Check check{sample, dtype, setting};
  const UnderTest under_test(setting.device, dtype);
  const bool runs = succeeds([&] {
    const Inputs inputs(check, draw_inputs(check));
    run(check, inputs.tensors());
    return true;
  });
  if (!runs) return "";
  return is_floating_point(dtype) && succeeds([&] { return run_backward(check); }) ? "grad" : "yes";
}

struct SupportRow {
  std::vector<std::string> devices;  // as support_of, of the best of all cases
  bool inplace = false;
  std::map<DType, std::string> dtypes;  // on the device under test
};

// The device under test, and the CPU or the GPU beside it where there is one.
std::vector<Device> devices_of(const Setting& setting) {
  std::vector<Device> devices{Device("cpu")};
  if (is_available(DeviceType::cuda)) devices.emplace_back("cuda");
  const auto is_it = [&](const Device& device) { return device.type == setting.device.type; };
  if (std::none_of(devices.begin(), devices.end(), is_it)) devices.push_back(setting.device);
  return devices;
}

// The dtype in which a case shows most: one that has gradients, where it has one.
DType telling_dtype(const Case& sample) {
  for (DType dtype : {kFloat32, kFloat64})
    if (std::find(sample.dtypes.begin(), sample.dtypes.end(), dtype) != sample.dtypes.end())
      return dtype;
  return sample.dtypes.empty() ? kFloat32 : sample.dtypes[0];
}

void add_support(SupportRow& row, const Case& sample, const std::vector<Device>& devices,
                 const Setting& setting) {
  const auto improve = [](std::string& cell, const std::function<std::string()>& other) {
    if (cell == "grad") return;
    const std::string found = other();
    if (found == "grad" || cell.empty()) cell = found;
  };
  row.devices.resize(devices.size());
  row.inplace |= sample.inplace != nullptr || sample.op.ends_with('_');
  for (size_t i = 0; i < devices.size(); ++i) {
    Setting there = setting;
    there.device = devices[i];
    improve(row.devices[i], [&] { return support_of(sample, telling_dtype(sample), there); });
  }
  for (DType dtype : kColumns)
    improve(row.dtypes[dtype], [&] { return support_of(sample, dtype, setting); });
}

void write_table(std::ostream& file, const std::map<std::string, SupportRow>& table,
                 const std::vector<Device>& devices, const Setting& setting) {
  file << "# What runs where\n\n`grad`: with gradients; `yes`: without; empty: refused with an "
          "error. The dtypes are those of "
       << to_string(setting.device) << ".\n\n| op |";
  for (const Device& device : devices) file << " " << name(device.type) << " |";
  file << " in place |";
  for (DType dtype : kColumns) file << " " << tensora::name(dtype) << " |";
  file << "\n|---|";
  for (size_t i = 0; i < devices.size() + 1 + std::size(kColumns); ++i) file << "---|";
  for (const auto& [op, row] : table) {
    file << "\n| " << op << " |";
    for (const std::string& cell : row.devices) file << " " << cell << " |";
    file << (row.inplace ? " yes |" : " |");
    for (DType dtype : kColumns) file << " " << row.dtypes.at(dtype) << " |";
  }
  file << "\n";
}

// Collects the names of the ops that run while it exists, and keeps those of calls that came back:
// an op that threw was not tried.
class SeenOps {
 public:
  SeenOps() { set_range_observer(&observer_); }
  ~SeenOps() { set_range_observer(nullptr); }
  SeenOps(const SeenOps&) = delete;
  SeenOps& operator=(const SeenOps&) = delete;
  static bool contains(std::string_view op) { return names_.contains(std::string(op)); }
  static void keep_if(bool succeeded) {
    const std::lock_guard lock(mutex_);
    if (succeeded) names_.merge(pending_);
    pending_.clear();
  }

 private:
  static void begin(const char* name) {
    const std::lock_guard lock(mutex_);
    pending_.emplace(name);
  }
  static constexpr RangeObserver observer_{begin, [] {}};
  static inline std::mutex mutex_;
  static inline std::set<std::string> names_, pending_;
};

void keep_if_succeeds(const std::function<bool()>& body) { SeenOps::keep_if(succeeds(body)); }

void run_everything(const Case& sample, DType dtype, const Setting& setting) {
  const UnderTest under_test(setting.device, dtype);
  const Check check{sample, dtype, setting};
  const auto strided = [](const Shape& sizes, size_t) { return strided_layouts()[0].of(sizes); };
  // Some ops only have work to do on tensors that are not contiguous.
  for (bool contiguous : {true, false})
    keep_if_succeeds([&] {
      const ArrayList values = draw_inputs(check);
      const Inputs inputs = contiguous ? Inputs(check, values) : Inputs(check, values, strided);
      run(check, inputs.tensors());
      return true;
    });
  if (is_floating_point(dtype))
    keep_if_succeeds([&] {
      run_backward(check);
      return true;
    });
  if (sample.inplace)
    keep_if_succeeds([&] {
      const Inputs inputs(check, draw_inputs(check));
      run_inplace(check, inputs.tensors());
      return true;
    });
}

}  // namespace

std::string measure(const Check& check) {
  const Inputs inputs(check, draw_inputs(check));
  double bytes = 0;
  for (const Tensor& input : inputs.tensors()) bytes += static_cast<double>(input.nbytes());
  for (const Tensor& output : run(check, inputs.tensors()))
    bytes += static_cast<double>(output.nbytes());
  std::vector<double> times;
  double total = 0;
  do {
    times.push_back(seconds_of(check, inputs));
    total += times.back();
  } while (!check.setting.quick && (times.size() < 5 || (total < 0.3 && times.size() < 200)));
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  const double median = times[times.size() / 2];
  char text[64];
  std::snprintf(text, sizeof text, "%.3f ms, %.2f GB/s", median * 1e3, bytes / median * 1e-9);
  return text;
}

void write_support_table(const Cases& cases, const Options& options, const Setting& setting,
                         Report& report) {
  const std::vector<Device> devices = devices_of(setting);
  std::map<std::string, SupportRow> table;
  for (const Case& sample : cases.samples) {
    if (sample.big || !selects(options, sample.op, sample.name)) continue;
    report.run({.op = sample.op, .sample = sample.name, .dtype = "-", .mode = Mode::support}, [&] {
      add_support(table[sample.op], sample, devices, setting);
      return std::string();
    });
  }
  std::ofstream file(options.support_path);
  write_table(file, table, devices, setting);
  file.close();
  check(file.good(), "support: the table could not be written to '", options.support_path, "'");
}

void check_coverage(const Cases& cases, const Options& options, const Setting& setting,
                    Report& report) {
  const auto is_selected = [&](const OpBase* op) {
    return selects(options, std::string(op->name), "");
  };
  const std::span<const OpBase* const> ops = op_registry().all();
  if (std::none_of(ops.begin(), ops.end(), is_selected)) return;
  const SeenOps seen;
  for (const Case& sample : cases.samples)
    if (!sample.big)
      for (DType dtype : sample.dtypes) run_everything(sample, dtype, setting);
  for (const OpBase* op : ops) {
    const std::string op_name(op->name);
    if (!is_selected(op)) continue;
    // What several ops are called instead of, on devices that have a kernel for it.
    if (op->internal && op->has_reference && !op->has_kernel(setting.device.type)) continue;
    report.run({.op = op_name, .sample = "any", .dtype = "-", .mode = Mode::coverage}, [&] {
      require(SeenOps::contains(op_name),
              "no sample case reaches this op; list some in its room's _cases.cpp");
      return std::string();
    });
  }
}

}  // namespace tensora::suite
