// Replays the calls of tests/oracle/goldens, which make_goldens.py wrote from PyTorch's answers,
// through the registry, and compares values, dtypes, shapes and gradients. Usage: tensora-goldens
// FOLDER [DEVICE]; exits with 77 where the device is missing.
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <system_error>

#include "tensora/dispatch/op.h"
#include "tensora/tensora.h"

namespace {

using namespace tensora;

/// The words of a line, one after the other.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  bool empty() const { return rest_.empty(); }
  std::string_view next() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  /// Takes the next word if it is this one.
  bool take(std::string_view word) {
    Words ahead = *this;
    if (ahead.next() != word) return false;
    *this = ahead;
    return true;
  }

 private:
  std::string_view rest_;
};

std::optional<int64_t> whole(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return {};
  return value;
}
double fraction(std::string_view word) { return std::stod(std::string(word)); }

AttrValue attribute(std::string_view word) {
  if (word == "none") return {};
  if (word == "true" || word == "false") return to_attr_value(word == "true");
  if (word.starts_with("'")) return to_attr_value(std::string(word.substr(1, word.size() - 2)));
  if (word.starts_with("[")) {
    std::vector<int64_t> ints;
    std::vector<double> floats;
    bool fractions = false;
    std::string_view list = word.substr(1, word.size() - 2);
    while (!list.empty()) {
      const size_t end = std::min(list.find(','), list.size());
      const std::string_view item = list.substr(0, end);
      floats.push_back(fraction(item));
      fractions |= !whole(item);
      ints.push_back(whole(item).value_or(0));
      list.remove_prefix(std::min(end + 1, list.size()));
    }
    return fractions ? to_attr_value(floats) : to_attr_value(ints);
  }
  if (const auto value = whole(word)) return to_attr_value(*value);
  return to_attr_value(fraction(word));
}

Scalar number(std::string_view word) {
  if (word == "true" || word == "false") return word == "true";
  if (const auto value = whole(word)) return *value;
  return fraction(word);
}

/// A tensor as a line describes it: integers keep all their digits.
struct Described {
  DType dtype = kFloat32;
  Shape sizes;
  bool grad = false;
  std::vector<double> values;
  std::vector<int64_t> integers;

  explicit Described(Words words) {
    dtype = parse_dtype(words.next());
    std::string_view list = words.next();
    while (list != "-" && !list.empty()) {
      const size_t end = std::min(list.find(','), list.size());
      sizes.push_back(whole(list.substr(0, end)).value());
      list.remove_prefix(std::min(end + 1, list.size()));
    }
    grad = words.take("grad");
    while (!words.empty()) {
      const std::string_view word = words.next();
      values.push_back(fraction(word));
      integers.push_back(is_floating_point(dtype) ? 0 : whole(word).value());
    }
  }

  Tensor made(Device device) const {
    const Tensor flat = is_floating_point(dtype) ? tensor(values, {.dtype = kFloat64})
                                                 : tensor(integers, {.dtype = kInt64});
    const Tensor result = flat.view(sizes).to(dtype).to(device).clone();
    return grad ? result.requires_grad_() : result;
  }
};

/// How far elements may be apart; the fuzzer's bounds.
bool is_close(double ours, double theirs, DType dtype, bool loose) {
  if (std::isnan(theirs) || std::isnan(ours)) return std::isnan(theirs) && std::isnan(ours);
  if (std::isinf(theirs) || !is_floating_point(dtype)) return ours == theirs;
  const double digits = dtype == kFloat16    ? 2e-3
                        : dtype == kBFloat16 ? 1.6e-2
                        : dtype == kFloat32  ? 4e-6
                                             : 1e-11;
  return std::abs(ours - theirs) <=
         digits * (loose ? 100 : 1) * std::max(loose ? 1 : 1e-2, std::abs(theirs));
}

/// What differs; empty if nothing does.
std::string difference(const Tensor& ours, const Described& theirs, bool loose) {
  if (ours.dtype() != theirs.dtype || ours.sizes() != theirs.sizes)
    return concat(ours.dtype(), " ", ours.sizes(), " where PyTorch has ", theirs.dtype, " ",
                  theirs.sizes);
  const bool floating = is_floating_point(theirs.dtype);
  const Tensor flat = ours.detach().cpu().to(floating ? kFloat64 : kInt64).contiguous().ravel();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const auto k = static_cast<size_t>(i);
    const bool same = floating
                          ? is_close(flat.at<double>({i}), theirs.values[k], theirs.dtype, loose)
                          : flat.at<int64_t>({i}) == theirs.integers[k];
    if (!same)
      return concat("element ", i, " is ", flat[i].item().to<double>(), " where PyTorch has ",
                    theirs.values[k]);
  }
  return "";
}

/// One call: its lines are collected, and run when the next begins.
struct Call {
  std::string op, place;
  bool loose = false, first = false, raises = false;
  std::vector<std::pair<std::string, AttrValue>> attrs;
  std::vector<Tensor> inputs;
  std::vector<Described> outputs;
  std::vector<std::pair<size_t, Described>> grads;

  void read(std::string_view line, Device device) {
    Words words(line);
    const std::string_view kind = words.next();
    if (kind == "in")
      inputs.push_back(Described(words).made(device));
    else if (kind == "num")
      inputs.push_back(wrap_number(number(words.next())));
    else if (kind == "none")
      inputs.emplace_back();
    else if (kind == "raise")
      raises = true;
    else if (kind == "out")
      outputs.emplace_back(words);
    else if (kind == "grad") {
      const auto input = static_cast<size_t>(whole(words.next()).value());
      grads.emplace_back(input, Described(words));
    } else
      fail("goldens: line '", line, "' is of no known kind");
  }

  void begin(std::string_view line) {
    Words words(line);
    words.next();
    op = words.next();
    loose = words.take("loose");
    first = words.take("first");
    while (!words.empty()) {
      const std::string_view word = words.next();
      const size_t equals = word.find('=');
      attrs.emplace_back(word.substr(0, equals), attribute(word.substr(equals + 1)));
    }
  }

  /// PyTorch's GPU too answers otherwise than the CPU, whose answers are recorded: it does not look
  /// for divisions of integers by zero, and of elements that are written twice any one stays.
  bool is_of_the_cpu_alone() const {
    if (inputs.size() < 2 || !inputs[1].defined()) return false;
    if (op == "scatter") return is_written_twice(inputs[1]);
    const bool divides = op.starts_with("div_") || op == "remainder" || op == "fmod";
    return raises && divides && !is_floating_point(inputs[1].dtype()) &&
           any(eq(inputs[1], 0)).item<bool>();
  }

  /// What differs; empty if nothing does.
  std::string run() const {
    Tensors results;
    try {
      results = apply_by_name(op, inputs, attrs);
      for (const Tensor& result : results) synchronize(result.device());  // a GPU throws late
    } catch (const Error& error) {
      return raises ? "" : concat("throws: ", error.what());
    }
    if (raises) return "is accepted, which PyTorch refuses";
    if (first) results.resize(1);
    if (results.size() != outputs.size())
      return concat(results.size(), " outputs where PyTorch has ", outputs.size());
    for (size_t i = 0; i < results.size(); ++i)
      if (const auto text = difference(results[i], outputs[i], loose); !text.empty())
        return concat("output ", i, ": ", text);
    return grads.empty() ? "" : gradient_difference(results);
  }

 private:
  bool is_written_twice(const Tensor& index) const {
    const auto dim = std::find_if(attrs.begin(), attrs.end(),
                                  [](const auto& attr) { return attr.first == "dim"; });
    if (dim == attrs.end() || index.dim() == 0) return false;
    const int64_t along = dim->second.integer;
    const Tensor sorted = std::get<0>(sort(index, along));
    const int64_t size = index.size(along);
    if (size < 2) return false;
    return any(eq(sorted.narrow(along, 1, size - 1), sorted.narrow(along, 0, size - 1)))
        .item<bool>();
  }

  std::string gradient_difference(const Tensors& results) const {
    std::vector<Tensor> started, seeds;
    for (const Tensor& result : results) {
      if (!result.requires_grad()) continue;
      std::vector<double> weights;
      for (int64_t i = 0; i < result.numel(); ++i)
        weights.push_back(0.5 * static_cast<double>(i * 7 % 5) - 0.75);
      started.push_back(result);
      seeds.push_back(tensor(weights, {.dtype = kFloat64})
                          .view(result.sizes())
                          .to(result.dtype())
                          .to(result.device()));
    }
    if (started.empty()) return "no output has a gradient";
    backward(started, seeds);
    for (const auto& [input, theirs] : grads) {
      const Tensor ours = inputs[input].grad();
      if (!ours.defined()) {
        for (double value : theirs.values)
          if (value != 0) return concat("input ", input, " has no gradient");
        continue;
      }
      if (const auto text = difference(ours, theirs, true); !text.empty())
        return concat("gradient of input ", input, ": ", text);
    }
    return "";
  }
};

struct Totals {
  Device device;
  int calls = 0, failed = 0;
  std::set<std::string> ops = {};

  void run(const Call& call) {
    if (call.op.empty() || (device != kCPU && call.is_of_the_cpu_alone())) return;
    ++calls;
    ops.insert(call.op);
    std::string found;
    try {
      found = call.run();
    } catch (const std::exception& error) {
      found = error.what();
    }
    if (found.empty()) return;
    if (++failed <= 40) std::cout << call.place << ": " << call.op << ": " << found << "\n";
  }
};

void replay(const std::filesystem::path& path, Device device, Totals& totals) {
  std::ifstream file(path);
  check(file.good(), "goldens: '", path.string(), "' could not be read");
  Call call;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("call ")) {
      totals.run(call);
      call = Call();
      call.place = concat(path.filename().string(), ":", number);
      call.begin(line);
    } else {
      call.read(line, device);
    }
  }
  totals.run(call);
}

// The ops that no line reaches; each is one for tools/fuzz/ops.py.
void report_uncovered(const Totals& totals) {
  std::string names;
  for (const OpBase* op : op_registry().all())
    if (!op->internal && !totals.ops.contains(std::string(op->name)))
      names += concat(" ", op->name);
  std::cout << "without goldens:" << names << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  try {
    check(count >= 2, "usage: tensora-goldens FOLDER [DEVICE]");
    const Device device(count > 2 ? arguments[2] : "cpu");
    if (!is_available(device.type)) {
      std::cout << "goldens: skipped, " << to_string(device) << " is not available\n";
      return 77;
    }
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[1]))
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    check(!files.empty(), "goldens: there are none in '", arguments[1], "'; run ./dev golden");
    std::sort(files.begin(), files.end());
    Totals totals{.device = device};
    for (const auto& path : files) replay(path, device, totals);
    report_uncovered(totals);
    std::cout << totals.calls << " calls of " << totals.ops.size() << " ops on "
              << to_string(device) << ", " << totals.failed << " differ\n";
    return totals.failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cout << error.what() << "\n";
    return 1;
  }
}
