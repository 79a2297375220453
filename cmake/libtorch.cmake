# libtensora_libtorch: LibTorch's interface over Tensora (tensora/libtorch.h). Who links
# Tensora::libtorch can also say #include <torch/torch.h>; nobody else sees that folder, so that it does
# not hide PyTorch's own headers.
file(GLOB_RECURSE libtorch_sources CONFIGURE_DEPENDS tensora/libtorch/*.cpp)
add_library(tensora_libtorch SHARED ${libtorch_sources})
add_library(Tensora::libtorch ALIAS tensora_libtorch)
set_target_properties(tensora_libtorch PROPERTIES TENSORA_LEVEL -Os EXPORT_NAME libtorch
                      VERSION ${PROJECT_VERSION} SOVERSION 0)
target_compile_options(tensora_libtorch PRIVATE -fvisibility-inlines-hidden)
target_link_libraries(tensora_libtorch PUBLIC tensora PRIVATE tensora_flags)
set(libtorch_headers ${generated}/libtorch_include)
target_include_directories(tensora_libtorch INTERFACE
  $<BUILD_INTERFACE:${libtorch_headers}> $<INSTALL_INTERFACE:include/tensora/libtorch/include>)

# The names under which programs include LibTorch or a part of it.
foreach(name torch/torch.h torch/all.h torch/arg.h torch/autograd.h torch/cuda.h torch/data.h torch/enum.h
        torch/expanding_array.h torch/nn.h torch/optim.h torch/ordered_dict.h torch/serialize.h
        torch/types.h torch/utils.h torch/nn/cloneable.h torch/nn/functional.h torch/nn/init.h
        torch/nn/module.h torch/nn/modules.h torch/nn/options.h torch/nn/pimpl.h torch/nn/utils.h
        torch/data/dataloader.h torch/data/datasets.h torch/data/samplers.h torch/data/transforms.h
        torch/optim/adam.h torch/optim/optimizer.h torch/optim/sgd.h ATen/ATen.h ATen/Dispatch.h
        ATen/TensorIndexing.h ATen/core/Tensor.h c10/core/Device.h c10/core/ScalarType.h
        c10/util/ArrayRef.h c10/util/Exception.h c10/util/Optional.h c10/util/irange.h)
  set(text "#pragma once\n#include <tensora/libtorch.h>\n")
  set(present "")
  if(EXISTS ${libtorch_headers}/${name})
    file(READ ${libtorch_headers}/${name} present)
  endif()
  if(NOT present STREQUAL text)
    file(WRITE ${libtorch_headers}/${name} ${text})
  endif()
endforeach()
