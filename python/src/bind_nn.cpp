#include "python/src/bindings.h"
#include "tensora/nn/init.h"
#include "tensora/nn/utils.h"
#include "tensora/tensora.h"

namespace tensora::python {
namespace {

namespace nb = nanobind;

nb::tuple from_packed(const PackedSequence& packed) {
  return nb::make_tuple(packed.data, packed.batch_sizes, packed.sorted_indices,
                        packed.unsorted_indices);
}

void bind_init(nb::module_& init) {
  namespace i = nn::init;
  init.def("calculate_gain", &i::calculate_gain, nb::arg("nonlinearity"),
           nb::arg("param") = nb::none());
  init.def("_calculate_fan_in_and_fan_out", &i::calculate_fan_in_and_fan_out, nb::arg("tensor"));
  init.def("uniform_", &i::uniform_, nb::arg("tensor"), nb::arg("a") = 0., nb::arg("b") = 1.);
  init.def("normal_", &i::normal_, nb::arg("tensor"), nb::arg("mean") = 0., nb::arg("std") = 1.);
  init.def("trunc_normal_", &i::trunc_normal_, nb::arg("tensor"), nb::arg("mean") = 0.,
           nb::arg("std") = 1., nb::arg("a") = -2., nb::arg("b") = 2.);
  init.def("constant_", &i::constant_, nb::arg("tensor"), nb::arg("val"));
  init.def("ones_", &i::ones_, nb::arg("tensor"));
  init.def("zeros_", &i::zeros_, nb::arg("tensor"));
  init.def("eye_", &i::eye_, nb::arg("tensor"));
  init.def("dirac_", &i::dirac_, nb::arg("tensor"), nb::arg("groups") = 1);
  init.def("xavier_uniform_", &i::xavier_uniform_, nb::arg("tensor"), nb::arg("gain") = 1.);
  init.def("xavier_normal_", &i::xavier_normal_, nb::arg("tensor"), nb::arg("gain") = 1.);
  init.def(
      "kaiming_uniform_",
      [](const Tensor& tensor, double a, std::string_view mode, std::string_view nonlinearity) {
        return i::kaiming_uniform_(tensor, {a, mode, nonlinearity});
      },
      nb::arg("tensor"), nb::arg("a") = 0., nb::arg("mode") = "fan_in",
      nb::arg("nonlinearity") = "leaky_relu");
  init.def(
      "kaiming_normal_",
      [](const Tensor& tensor, double a, std::string_view mode, std::string_view nonlinearity) {
        return i::kaiming_normal_(tensor, {a, mode, nonlinearity});
      },
      nb::arg("tensor"), nb::arg("a") = 0., nb::arg("mode") = "fan_in",
      nb::arg("nonlinearity") = "leaky_relu");
  init.def("orthogonal_", &i::orthogonal_, nb::arg("tensor"), nb::arg("gain") = 1.);
  init.def("sparse_", &i::sparse_, nb::arg("tensor"), nb::arg("sparsity"), nb::arg("std") = 0.01);
}

}  // namespace

void bind_nn(nb::module_& module) {
  nb::module_ init = module.def_submodule("init");
  bind_init(init);
  module.def("_pack_padded_sequence", [](const Tensor& input, const Tensor& lengths,
                                         bool batch_first, bool enforce_sorted) {
    return from_packed(pack_padded_sequence(input, lengths, batch_first, enforce_sorted));
  });
  module.def("_pad_packed_sequence",
             [](const Tensor& data, const Tensor& batch_sizes, const std::optional<Tensor>& sorted,
                const std::optional<Tensor>& unsorted, bool batch_first, double padding_value,
                std::optional<int64_t> total_length) {
               return nb::steal(wrap_all(std::apply(
                   [](const auto&... parts) { return std::vector<Tensor>{parts...}; },
                   pad_packed_sequence(
                       {data, batch_sizes, sorted.value_or(Tensor()), unsorted.value_or(Tensor())},
                       batch_first, padding_value, total_length))));
             });
}

}  // namespace tensora::python
