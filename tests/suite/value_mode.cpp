// Modes that look at results: value, view, determinism, meta, error.
#include <future>

#include "tensora/backend/cpu/red_zones.h"
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

/// Guards around what ops allocate on the host, outputs and scratch alike; inputs have their own.
/// On CUDA, TENSORA_CUDA_RED_ZONES does it.
class GuardedOutputs {
 public:
  GuardedOutputs() : before_(cpu::has_red_zones()) { cpu::set_red_zones(true); }
  ~GuardedOutputs() { cpu::set_red_zones(before_); }
  GuardedOutputs(const GuardedOutputs&) = delete;
  GuardedOutputs& operator=(const GuardedOutputs&) = delete;
  void require_intact() const { cpu::check_red_zones(); }

 private:
  bool before_;
};

void require_shape_and_dtype(const Check& check, const Out& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    require(outputs[i].defined(), "output ", i, " is undefined");
    require(outputs[i].dtype() == expected_dtype(check, i), "output ", i, ": expected dtype ",
            expected_dtype(check, i), ", got ", outputs[i].dtype());
  }
}

// What the reference gives, as the output's dtype can hold it.
Array expected_output(const Array& reference, DType dtype) {
  Array result = reference;
  for (double& value : result.values) value = rounded(value, dtype);
  return result;
}

void require_matches_reference(const Check& check, const ArrayList& values, const Out& outputs) {
  const ArrayList expected = check.sample.reference(values);
  require(expected.size() == outputs.size(), "the reference gives ", expected.size(),
          " outputs, the op ", outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType dtype = outputs[i].dtype();
    require_close(read(outputs[i]), expected_output(expected[i], dtype),
                  tolerance_of(dtype, check.sample.tolerance), concat("output ", i));
  }
}

void require_same(const Out& got, const Out& expected, double factor, std::string_view what) {
  require(got.size() == expected.size(), what, ": expected ", expected.size(), " outputs, got ",
          got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    require(got[i].dtype() == expected[i].dtype(), what, ": output ", i, " has dtype ",
            got[i].dtype(), " instead of ", expected[i].dtype());
    require_close(read(got[i]), read(expected[i]), tolerance_of(got[i].dtype(), factor),
                  concat(what, ", output ", i));
  }
}

// Values that are constant along dim `d`, as an expanded tensor's are.
Array constant_along(const Array& values, int d) {
  Array result = values;
  int64_t position = 0;
  Array::each(values.sizes, [&](const Shape& index) {
    Shape first = index;
    first[d] = 0;
    result[position++] = values.at(first);
  });
  return result;
}

int first_long_dim(const Shape& sizes) {
  for (int d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1) return d;
  return -1;
}

// Inputs with stride 0 along their first long dim, against the same values laid out in full.
void check_expanded(const Check& check, const ArrayList& drawn) {
  ArrayList values = drawn;
  for (Array& array : values)
    if (const int d = first_long_dim(array.sizes); d >= 0) array = constant_along(array, d);
  const Inputs plain(check, values);
  // Indices collide then, and which write stays is not up to timing in this mode only.
  const DeterministicScope deterministic(true);
  Out expected;
  try {
    expected = run(check, plain.tensors());
  } catch (const Error&) {
    return;  // the op cannot take such values
  }
  const Inputs expanded(check, values, [](const Shape& sizes, size_t) {
    Layout layout = contiguous_layout(sizes);
    if (const int d = first_long_dim(sizes); d >= 0) layout.strides[d] = 0;
    return layout;
  });
  require_same(run(check, expanded.tensors()), expected, check.sample.tolerance, "expanded");
  expanded.require_unchanged();
}

void require_bitwise_equal(const Out& got, const Out& expected, std::string_view what) {
  require(got.size() == expected.size(), what, ": another number of outputs");
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor a = got[i].cpu().contiguous(), b = expected[i].cpu().contiguous();
    require(a.sizes() == b.sizes() && a.dtype() == b.dtype(), what, ": output ", i,
            " differs in shape or dtype");
    if (a.nbytes() != 0 && __builtin_memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) != 0)
      require_close(read(a), read(b), {}, concat(what, ", output ", i));
  }
}

}  // namespace

DType expected_dtype(const Check& check, size_t i) {
  const Case& sample = check.sample;
  if (i < sample.output_dtypes.size() && sample.output_dtypes[i]) return *sample.output_dtypes[i];
  return sample.output_dtype ? sample.output_dtype(check.dtype) : check.dtype;
}

void check_value(const Check& check) {
  require(check.sample.reference != nullptr, "the case has no reference; give one, or opt out");
  const GuardedOutputs guards;
  const ArrayList values = draw_inputs(check);
  const Inputs inputs(check, values);
  const Out outputs = run(check, inputs.tensors());
  inputs.require_unchanged();
  guards.require_intact();
  require_shape_and_dtype(check, outputs);
  require_matches_reference(check, values, outputs);
  if (check.sample.is_view)
    for (const Tensor& output : outputs)
      require(output.shares_storage(inputs[0]), "a view must share the storage of input 0");
}

void check_view(const Check& check) {
  const GuardedOutputs guards;
  const ArrayList values = draw_inputs(check);
  const Inputs plain(check, values);
  const Out expected = run(check, plain.tensors());
  const std::span<const NamedLayout> layouts = strided_layouts();
  for (size_t k = 0; k < layouts.size(); ++k) {
    const Inputs strided(check, values,
                         [&](const Shape& sizes, size_t) { return layouts[k].of(sizes); });
    require_same(run(check, strided.tensors()), expected, check.sample.tolerance, layouts[k].name);
    strided.require_unchanged();
    if (values.size() < 2) continue;
    // Inputs that lie differently from one another; every fourth is contiguous.
    const Inputs mixed(check, values, [&](const Shape& sizes, size_t input) {
      if ((k + input) % 4 == 3) return contiguous_layout(sizes);
      return layouts[(k + 2 * input) % layouts.size()].of(sizes);
    });
    require_same(run(check, mixed.tensors()), expected, check.sample.tolerance,
                 concat("mixed layouts, input 0 ", layouts[k].name));
    mixed.require_unchanged();
  }
  check_expanded(check, values);
  guards.require_intact();
}

void check_determinism(const Check& check) {
  const ArrayList values = draw_inputs(check);
  const Inputs inputs(check, values);
  const auto run_with = [&](int threads) {
    set_num_threads(threads);
    return run(check, inputs.tensors());
  };
  struct Restore {
    int threads;
    ~Restore() { set_num_threads(threads); }
  } restore{check.setting.max_threads};
  const DeterministicScope deterministic(true);
  const Out first = run_with(check.setting.max_threads);
  require_bitwise_equal(run_with(check.setting.max_threads), first, "the second run");
  require_bitwise_equal(run_with(1), first, "with one thread");
  require_bitwise_equal(run_with(3), first, "with three threads");
  inputs.require_unchanged();  // otherwise results may be one tensor, compared with itself
  // Threads of the program may compute with the same inputs; there one of them finds the pool busy.
  if (check.setting.device != Device()) return;
  const auto run_here = [&] {
    const DeterministicScope of_this_thread(true);
    Generator generator(check.sample.seed.value_or(check.setting.seed));
    const GeneratorScope scope(generator);
    return check.sample.run(inputs.tensors());
  };
  std::future<Out> other = std::async(std::launch::async, run_here);
  require_bitwise_equal(run_here(), first, "while another thread computes the same");
  require_bitwise_equal(other.get(), first, "in another thread at the same time");
}

void check_meta(const Check& check) {
  const ArrayList values = draw_inputs(check);
  const Inputs inputs(check, values);
  const Out expected = run(check, inputs.tensors());
  const Setting shapes_only{.device = DeviceType::meta, .seed = check.setting.seed};
  const Check meta{check.sample, check.dtype, shapes_only};
  const UnderTest under_test(shapes_only.device, check.dtype);
  const Inputs shapes(meta, values);
  const Out got = run(check, shapes.tensors());
  require(got.size() == expected.size(), "another number of outputs");
  for (size_t i = 0; i < got.size(); ++i) {
    require(got[i].is_meta(), "output ", i, " is on ", got[i].device());
    require(got[i].sizes() == expected[i].sizes() && got[i].dtype() == expected[i].dtype(),
            "output ", i, ": expected ", expected[i].dtype(), " ", expected[i].sizes(), ", got ",
            got[i].dtype(), " ", got[i].sizes());
  }
}

void check_error(const ErrorCase& mistake) {
  require(!mistake.message.empty(), "the case expects no message, so that any error would do");
  std::string text;
  try {
    mistake.run();
  } catch (const InternalError& error) {
    throw Failure(concat("an internal error instead of a clear message: ", error.what()));
  } catch (const Error& error) {
    text = error.what();
  } catch (const std::exception& error) {
    throw Failure(concat("an exception that is no tensora::Error: ", error.what()));
  }
  require(!text.empty(), "nothing was thrown; expected a message with '", mistake.message, "'");
  require(text.find(mistake.message) != std::string::npos, "expected a message with '",
          mistake.message, "', got '", text, "'");
  require(full({}, 2.5).item<double>() == 2.5, "the library does not work after the error");
  require(is_grad_enabled() && !is_inference_mode(), "the error left a mode switched");
}

}  // namespace tensora::suite
