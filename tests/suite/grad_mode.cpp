// The `grad` mode: gradients of first and second order against finite differences in float64.
#include <cmath>

#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

constexpr double kStep = 3e-6;        // of the central differences
constexpr int64_t kAllElements = 48;  // inputs up to this size are checked element by element
constexpr int kProbes = 12;           // single elements checked in larger ones

// One case prepared for differentiation: input values, and the weights of the outputs that make
// a scalar of them.
struct Problem {
  Check check;
  ArrayList values;
  std::vector<size_t> wanted;   // inputs to differentiate with respect to
  ArrayList weights;            // one per floating output
  std::vector<size_t> outputs;  // which outputs those are
  bool finite = true;           // whether all of them are
};

// The gradients of one evaluation, and what they were computed from.
struct Gradients {
  std::vector<Tensor> leaves;  // the wanted inputs
  std::vector<Tensor> seeds;   // the gradients of the outputs
  std::vector<Tensor> grads;   // undefined: zero
};

std::vector<size_t> wanted_inputs(const Case& sample) {
  std::vector<size_t> result;
  if (sample.grad_inputs) {
    for (int i : *sample.grad_inputs) result.push_back(static_cast<size_t>(i));
    return result;
  }
  for (size_t i = 0; i < sample.inputs.size(); ++i)
    if (!sample.inputs[i].dtype) result.push_back(i);
  return result;
}

Problem make_problem(const Check& check) {
  Problem problem{check, draw_inputs(check), wanted_inputs(check.sample), {}, {}};
  const Inputs inputs(check, problem.values);
  const Out outputs = run(check, inputs.tensors());
  Numbers numbers(seed_of(check, 101));
  for (size_t i = 0; i < outputs.size(); ++i) {
    // What is rounded to a narrower type moves in steps, and has no finite differences.
    if (outputs[i].dtype() != check.dtype) continue;
    problem.outputs.push_back(i);
    Array weights = draw_weights(outputs[i].sizes(), numbers);
    const Array values = read(outputs[i]);
    for (int64_t k = 0; k < values.numel(); ++k)
      if (!std::isfinite(values[k])) {  // nor has infinity
        weights[k] = 0;
        problem.finite = false;
      }
    problem.weights.push_back(std::move(weights));
  }
  return problem;
}

// The weighted sum of the outputs, evaluated without a graph.
double loss_at(const Problem& problem, const ArrayList& values) {
  const no_grad silent;
  const Inputs inputs(problem.check, values);
  const Out outputs = run(problem.check, inputs.tensors());
  double sum = 0;
  for (size_t k = 0; k < problem.outputs.size(); ++k) {
    const Array output = read(outputs[problem.outputs[k]]);
    for (int64_t i = 0; i < output.numel(); ++i)
      if (problem.weights[k][i] != 0) sum += output[i] * problem.weights[k][i];
  }
  return sum;
}

struct GradOptions {
  bool create_graph = false;
  bool strided = false;  // inputs and output gradients that are not contiguous
};

Gradients gradients_at(const Problem& problem, const ArrayList& values, const ArrayList& weights,
                       GradOptions options) {
  const Check& check = problem.check;
  const auto layout = [&](const Shape& sizes, size_t i) {
    return options.strided ? strided_layouts()[i % 2].of(sizes) : contiguous_layout(sizes);
  };
  const Inputs inputs(check, values, layout);
  Gradients result;
  for (size_t i : problem.wanted) result.leaves.push_back(inputs[i].requires_grad_());
  const Out outputs = run(check, inputs.tensors());
  std::vector<Tensor> recorded;
  for (size_t k = 0; k < problem.outputs.size(); ++k) {
    const Tensor& output = outputs[problem.outputs[k]];
    if (!output.requires_grad()) continue;
    const Placed seed(weights[k], output.dtype(), layout(output.sizes(), k + 1),
                      check.setting.device);
    result.seeds.push_back(seed.tensor());
    if (options.create_graph) result.seeds.back().requires_grad_();
    recorded.push_back(output);
  }
  result.grads.resize(result.leaves.size());
  if (recorded.empty()) return result;
  result.grads = grad(recorded, result.leaves, result.seeds,
                      {.create_graph = options.create_graph, .allow_unused = true});
  for (size_t k = 0; k < result.grads.size(); ++k) {
    if (!result.grads[k].defined()) continue;
    require(result.grads[k].sizes() == result.leaves[k].sizes() &&
                result.grads[k].dtype() == result.leaves[k].dtype(),
            "the gradient of input ", problem.wanted[k], " is ", result.grads[k].dtype(), " ",
            result.grads[k].sizes(), ", the input ", result.leaves[k].dtype(), " ",
            result.leaves[k].sizes());
  }
  return result;
}

Array array_of(const Tensor& grad, const Shape& sizes) {
  return grad.defined() ? read(grad) : Array(sizes);
}

ArrayList arrays_of(const Problem& problem, const Gradients& gradients) {
  ArrayList result;
  for (size_t k = 0; k < gradients.grads.size(); ++k)
    result.push_back(array_of(gradients.grads[k], problem.values[problem.wanted[k]].sizes));
  return result;
}

void require_near(double analytic, double numeric, double factor, const std::string& what) {
  const double error = std::abs(analytic - numeric);
  require(error <= factor * (2e-6 + 2e-5 * std::abs(numeric)), what, ": expected ", numeric,
          " (finite differences), got ", analytic, ", error ", error);
}

// The elements to probe: all of a small input, some of a large one.
std::vector<int64_t> probes(int64_t count, const Check& check, Numbers& numbers) {
  std::vector<int64_t> result;
  const bool all = count <= kAllElements && !check.setting.quick;
  const int64_t wanted = all ? count : std::min<int64_t>(count, kProbes);
  for (int64_t i = 0; i < wanted; ++i)
    result.push_back(all ? i : static_cast<int64_t>(numbers.next() * static_cast<double>(count)));
  return result;
}

void check_first_order(const Problem& problem, const ArrayList& analytic) {
  Numbers numbers(seed_of(problem.check, 102));
  for (size_t k = 0; k < problem.wanted.size(); ++k) {
    ArrayList values = problem.values;
    Array& input = values[problem.wanted[k]];
    for (int64_t i : probes(input.numel(), problem.check, numbers)) {
      const double middle = input[i];
      input[i] = middle + kStep;
      const double above = loss_at(problem, values);
      input[i] = middle - kStep;
      const double below = loss_at(problem, values);
      input[i] = middle;
      require_near(analytic[k][i], (above - below) / (2 * kStep), problem.check.sample.tolerance,
                   concat("gradient of input ", problem.wanted[k], " at element ", i));
    }
  }
}

// A direction to move in. In a large input only a few elements move: were it all of them, two would
// be likely to change places, and the difference would leap over a kink (of a maximum, say).
Array draw_direction(const Shape& sizes, Numbers& numbers) {
  Array result = draw_weights(sizes, numbers);
  if (result.numel() <= kAllElements) return result;
  Array sparse(sizes);
  for (int i = 0; i < kProbes; ++i) {
    const auto at = static_cast<int64_t>(numbers.next() * static_cast<double>(sparse.numel()));
    sparse[at] = result[at];
  }
  return sparse;
}

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += a[i] * b[i];
  return sum;
}

Array moved(const Array& from, const Array& direction, double step) {
  Array result = from;
  for (int64_t i = 0; i < result.numel(); ++i) result[i] += step * direction[i];
  return result;
}

// d/dt of <v, gradient(x + t u, w + t s)> at 0, where the gradient is taken along output weights w.
double second_order_numeric(const Problem& problem, const ArrayList& projections,
                            const ArrayList& input_directions, const ArrayList& weight_directions) {
  double sides[2];
  for (int side = 0; side < 2; ++side) {
    const double step = side == 0 ? kStep : -kStep;
    ArrayList values = problem.values, weights = problem.weights;
    for (size_t k = 0; k < problem.wanted.size(); ++k) {
      Array& input = values[problem.wanted[k]];
      input = moved(input, input_directions[k], step);
    }
    for (size_t k = 0; k < weights.size(); ++k)
      weights[k] = moved(weights[k], weight_directions[k], step);
    const ArrayList grads = arrays_of(problem, gradients_at(problem, values, weights, {}));
    sides[side] = 0;
    for (size_t k = 0; k < grads.size(); ++k) sides[side] += dot(grads[k], projections[k]);
  }
  return (sides[0] - sides[1]) / (2 * kStep);
}

void check_second_order(const Problem& problem, const Gradients& first) {
  Numbers numbers(seed_of(problem.check, 103));
  ArrayList projections;
  std::vector<Tensor> outputs, seeds, inputs = first.leaves;
  for (size_t k = 0; k < problem.wanted.size(); ++k) {
    projections.push_back(draw_weights(problem.values[problem.wanted[k]].sizes, numbers));
    if (!first.grads[k].defined() || !first.grads[k].requires_grad()) continue;
    outputs.push_back(first.grads[k]);
    seeds.push_back(Placed(projections[k], first.grads[k].dtype(),
                           contiguous_layout(projections[k].sizes), problem.check.setting.device)
                        .tensor());
  }
  // The gradient is linear in the seeds, and that dependence must be recorded too.
  inputs.insert(inputs.end(), first.seeds.begin(), first.seeds.end());
  std::vector<Tensor> second(inputs.size());
  if (!outputs.empty()) second = grad(outputs, inputs, seeds, {.allow_unused = true});

  for (int round = 0; round < 2; ++round) {
    ArrayList input_directions, weight_directions;
    double analytic = 0;
    for (size_t k = 0; k < problem.wanted.size(); ++k) {
      const Array direction = draw_direction(projections[k].sizes, numbers);
      analytic += dot(array_of(second[k], direction.sizes), direction);
      input_directions.push_back(direction);
    }
    size_t seed = first.leaves.size();
    for (const Array& weight : problem.weights) {
      const Array direction = draw_weights(weight.sizes, numbers);
      if (seed < second.size())
        analytic += dot(array_of(second[seed++], direction.sizes), direction);
      weight_directions.push_back(direction);
    }
    require_near(analytic,
                 second_order_numeric(problem, projections, input_directions, weight_directions),
                 10 * problem.check.sample.tolerance, "second order along a random direction");
  }
}

bool takes(const Case& sample, DType dtype) {
  for (DType candidate : sample.dtypes)
    if (candidate == dtype) return true;
  return false;
}

// Gradients in a narrower dtype against those in float64 of the same inputs.
void check_precision(const Check& check, DType dtype) {
  const auto in_dtype = [&](DType used, auto&& body) {
    const UnderTest under_test(check.setting.device, used);
    return body();
  };
  Problem narrow = in_dtype(dtype, [&] {
    return make_problem({check.sample, dtype, check.setting});
  });
  for (Array& weight : narrow.weights)
    for (double& value : weight.values) value = rounded(value, dtype);
  if (!narrow.finite) return;
  const Problem wide{check, narrow.values, narrow.wanted, narrow.weights, narrow.outputs};
  const auto gradients = [](const Problem& problem) {
    return arrays_of(problem, gradients_at(problem, problem.values, problem.weights, {}));
  };
  const ArrayList got = in_dtype(dtype, [&] { return gradients(narrow); });
  const ArrayList expected = gradients(wide);
  const double factor = 10 * check.sample.tolerance;
  for (size_t k = 0; k < got.size(); ++k)
    require_close(got[k], expected[k], tolerance_of(dtype, factor),
                  concat(dtype, " gradient of input ", wide.wanted[k], " against float64"));
}

// Gradients of inputs, and from output gradients, that are not contiguous.
void check_strided(const Problem& problem, const ArrayList& expected) {
  if (problem.check.sample.opt_out.contains(Mode::view)) return;
  const ArrayList strided =
      arrays_of(problem, gradients_at(problem, problem.values, problem.weights, {.strided = true}));
  for (size_t k = 0; k < expected.size(); ++k)
    require_close(strided[k], expected[k], tolerance_of(kFloat64, problem.check.sample.tolerance),
                  concat("gradient of input ", problem.wanted[k], " on strided tensors"));
}

}  // namespace

void check_grad(const Check& check) {
  const Problem problem = make_problem(check);
  require(!problem.wanted.empty() && !problem.outputs.empty(),
          "the case has no input, or no output of the case's dtype, to differentiate; opt out of "
          "grad with the reason");
  const ArrayList first =
      arrays_of(problem, gradients_at(problem, problem.values, problem.weights, {}));
  check_first_order(problem, first);
  check_strided(problem, first);
  const Gradients recorded =
      gradients_at(problem, problem.values, problem.weights, {.create_graph = true});
  const ArrayList again = arrays_of(problem, recorded);
  for (size_t k = 0; k < first.size(); ++k)
    require_close(again[k], first[k], tolerance_of(kFloat64, check.sample.tolerance),
                  concat("gradient of input ", problem.wanted[k], " with create_graph"));
  check_second_order(problem, recorded);
  for (DType dtype : {kFloat32, kFloat16, kBFloat16})
    if (takes(check.sample, dtype)) check_precision(check, dtype);
}

}  // namespace tensora::suite
