// Every layer against PyTorch: printed form, state, result, gradients.
#include "tests/nn/golden.h"

#include <cmath>
#include <fstream>
#include <sstream>

namespace tensora::testing {

namespace {

Tensor read_tensor(std::istringstream& text, bool& learned) {
  std::string dtype, shape;
  text >> dtype >> shape;
  learned = dtype == "f";
  Shape sizes;
  if (shape != "scalar") {
    std::istringstream parts(shape);
    for (std::string part; std::getline(parts, part, 'x');) sizes.push_back(std::stoll(part));
  }
  Values numbers;
  for (std::string number; text >> number;) numbers.push_back(std::stod(number));
  return tensor(numbers, {.dtype = kFloat64}).reshape(sizes).to(dtype == "i" ? kInt64 : kFloat64);
}

std::string with_newlines(std::string text) {
  for (size_t at; (at = text.find("\\n")) != std::string::npos;) text.replace(at, 2, "\n");
  return text;
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  const Values a = values(got), b = values(expected);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 2e-8 + 2e-8 * std::abs(b[i])) << what << ", element " << i;
}

Subjects all_subjects() {
  Subjects all = layer_subjects();
  all.merge(loss_subjects());
  return all;
}

void compare(const Golden& golden, const Subject& subject) {
  nn::Module& module = *subject.module;
  EXPECT_EQ(module.to_string(), golden.printed);
  std::vector<std::string> keys, expected_keys;
  for (const auto& [key, tensor] : module.state_dict()) keys.push_back(key);
  for (const auto& [key, tensor] : golden.state) expected_keys.push_back(key);
  ASSERT_EQ(keys, expected_keys);
  module.to(kFloat64);
  module.train(golden.training);
  module.load_state_dict(golden.state);

  TensorList inputs;  // copies: some layers write to them
  for (const Tensor& input : golden.inputs) inputs.push_back(input.clone());
  const Tensor output = subject.run(inputs);
  expect_close(output, golden.output, "output");
  if (!golden.grads.empty()) {
    const Tensor weights = arange(output.numel(), {.dtype = kFloat64}).remainder(7).mul(0.1).add(1);
    (output * weights.reshape(output.sizes())).sum().backward();
  }
  for (const auto& [key, grad] : golden.grads) {
    const bool is_input = std::isdigit(key[0]) != 0;
    const Tensor leaf = is_input ? golden.inputs[std::stoul(key)] : module.get_parameter(key);
    expect_close(leaf.grad(), grad, "gradient of " + key);
  }
  for (const auto& [key, buffer] : golden.after)
    expect_close(module.get_buffer(key), buffer, key + " afterwards");
}

}  // namespace

std::vector<Golden> read_goldens(const std::string& file) {
  std::ifstream in(std::string(TENSORA_TESTS) + "/nn/goldens/" + file);
  std::vector<Golden> goldens;
  for (std::string line; std::getline(in, line);) {
    std::istringstream text(line);
    std::string kind, name;
    text >> kind;
    if (kind == "end") continue;
    if (kind == "case") {
      std::string mode;
      text >> goldens.emplace_back().name >> mode;
      goldens.back().training = mode == "train";
      continue;
    }
    Golden& golden = goldens.back();
    if (kind == "repr") {
      golden.printed = with_newlines(line.substr(5));
      continue;
    }
    bool learned = false;
    text >> name;
    const Tensor tensor = read_tensor(text, learned);
    if (kind == "state")
      golden.state.insert(name, tensor);
    else if (kind == "input")
      golden.inputs.push_back(learned ? tensor.requires_grad_() : tensor);
    else if (kind == "output")
      golden.output = tensor;
    else
      (kind == "grad" ? golden.grads : golden.after)[name] = tensor;
  }
  return goldens;
}

TEST(Golden, LayersAreAsInPyTorch) {
  Subjects subjects = all_subjects();
  const std::vector<Golden> goldens = read_goldens("layers.txt");
  EXPECT_GT(goldens.size(), 200U);
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    const auto found = subjects.find(golden.name);
    if (found == subjects.end()) {
      ADD_FAILURE() << "no layer is made for this golden";
      continue;
    }
    try {
      compare(golden, found->second());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    subjects.erase(found);
  }
  for (const auto& [name, make] : subjects) ADD_FAILURE() << name << " has no golden";
}

}  // namespace tensora::testing
