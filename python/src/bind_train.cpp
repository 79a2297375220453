#include "python/src/bindings.h"
#include "tensora/train/tensor_board_logger.h"

namespace tensora::python {

void bind_train(nanobind::module_& module) {
  using train::TensorBoardLogger;
  nanobind::class_<TensorBoardLogger>(module, "_TensorBoardLogger")
      .def(nanobind::init<const std::string&>())
      .def("scalars", &TensorBoardLogger::scalars)
      .def("text", &TensorBoardLogger::text)
      .def("histogram", &TensorBoardLogger::histogram);
}

}  // namespace tensora::python
