#pragma once

// Numbers that C++ and Python (filled.py) compute alike: the contents of a tensor follow from its
// name. And the reader of golden files.

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tensora/nn/module.h"
#include "tests/helpers.h"

namespace tensora::testing {

/// Number `index` of those that belong to `name`, between -1 and 1.
inline double unit(const std::string& name, uint64_t index) {
  uint64_t phase = 0;
  for (size_t i = 0; i < name.size(); ++i) phase += (i + 1) * static_cast<uint8_t>(name[i]);
  auto x = static_cast<uint32_t>(index * 2654435761U + phase * 40503U + 12345U);
  x ^= x >> 15;
  x *= 2246822519U;
  x ^= x >> 13;
  x *= 3266489917U;
  x ^= x >> 16;
  return static_cast<double>(x) / 0x1p31 - 1;
}

inline Tensor units(const std::string& name, const Shape& sizes) {
  std::vector<double> numbers(static_cast<size_t>(sizes.numel()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = unit(name, i);
  return tensor(numbers, {.dtype = kFloat64}).reshape(sizes);
}

inline Tensor filled(const std::string& name, const Shape& sizes) {
  return units(name, sizes).to(kFloat32);
}

/// What a parameter or buffer of this name and shape holds.
inline Tensor weight_of(const std::string& name, const Shape& sizes) {
  const Tensor values = units(name, sizes);
  const bool one = name.ends_with("weight");
  if (name.ends_with("running_var")) return (values * 0.5 + 1).to(kFloat32);
  if (sizes.size() == 1) return (values * 0.1 + (one ? 1 : 0)).to(kFloat32);
  const double fan_in = static_cast<double>(sizes.numel()) / static_cast<double>(sizes[0]);
  return (values * 1.5 / std::sqrt(fan_in)).to(kFloat32);
}

/// The tensors of a state_dict, filled by their names.
inline StateDict filled(const StateDict& state) {
  StateDict result;
  for (const auto& [name, tensor] : state)
    result.insert(name, tensor.is_floating_point() ? weight_of(name, tensor.sizes()) : tensor);
  return result;
}
inline void fill(nn::Module& module) {
  const no_grad silent;
  for (const auto& [name, tensor] : module.named_parameters())
    tensor.copy_(weight_of(name, tensor.sizes()));
  for (const auto& [name, tensor] : module.named_buffers())
    if (tensor.is_floating_point() && module.state_dict().contains(name))
      tensor.copy_(weight_of(name, tensor.sizes()));
}

/// A file of PyTorch's results.
class Goldens {
 public:
  explicit Goldens(const std::string& path) {
    std::ifstream file(path);
    check(file.good(), "the golden file ", path, " is missing");
    for (std::string line; std::getline(file, line);) {
      const size_t first = line.find('|'), second = line.find('|', first + 1);
      entries_[line.substr(0, first)] = {line.substr(first + 1, second - first - 1),
                                         line.substr(second + 1)};
    }
  }

  void expect(const std::string& name, const Tensor& got, double tolerance = 1e-5) const {
    const auto& [sizes, numbers] = at(name);
    EXPECT_EQ(text_of(got.sizes()), sizes) << name;
    const Values mine = values(got), theirs = parse(numbers);
    ASSERT_EQ(mine.size(), theirs.size()) << name;
    for (size_t i = 0; i < mine.size(); ++i)
      ASSERT_NEAR(mine[i], theirs[i], tolerance * (1 + std::abs(theirs[i]))) << name << " at " << i;
  }
  void expect_digest(const std::string& name, const Tensor& got, double tolerance = 1e-5) const {
    ASSERT_TRUE(got.defined()) << name;
    const Values theirs = parse(at(name).second);
    const Tensor flat = got.detach().to(kFloat64).flatten();
    const double norm = flat.norm().item<double>();
    EXPECT_NEAR(norm, theirs[4], tolerance * (1 + theirs[4])) << name;
    for (int i = 0; i < 4; ++i) {
      const Tensor direction = units("digest" + std::to_string(i), {flat.numel()});
      EXPECT_NEAR((flat * direction).sum().item<double>(), theirs[static_cast<size_t>(i)],
                  tolerance * (1 + 4 * norm))
          << name;
    }
  }
  /// Of a weighted sum of the outputs, for parameters and inputs.
  void expect_gradients(const std::string& name, const TensorList& outputs,
                        const nn::Module& module, const TensorList& inputs = {},
                        double tolerance = 1e-5) const {
    Tensor loss = zeros({});
    for (size_t i = 0; i < outputs.size(); ++i)
      loss = loss + (outputs[i] * filled("loss" + std::to_string(i), outputs[i].sizes())).sum();
    loss.backward();
    for (const auto& [key, parameter] : module.named_parameters())
      expect_digest(name + ".grad." + key, parameter.grad(), tolerance);
    for (size_t i = 0; i < inputs.size(); ++i)
      expect_digest(name + ".grad_input" + std::to_string(i), inputs[i].grad(), tolerance);
  }

 private:
  const std::pair<std::string, std::string>& at(const std::string& name) const {
    const auto found = entries_.find(name);
    check(found != entries_.end(), "there is no golden '", name, "'");
    return found->second;
  }
  static std::string text_of(const Shape& sizes) {
    std::string text;
    for (int64_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
    return text;
  }
  static Values parse(const std::string& text) {
    std::istringstream in(text);
    Values result;
    for (double value = 0; in >> value;) result.push_back(value);
    return result;
  }

  std::map<std::string, std::pair<std::string, std::string>> entries_;
};

}  // namespace tensora::testing
