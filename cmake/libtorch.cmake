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

# The names under which programs include LibTorch or a part of it: all are the same header.
function(add_libtorch_headers folder)
  set(text "#pragma once\n#include <tensora/libtorch.h>\n")
  foreach(name IN LISTS ARGN)
    set(header ${libtorch_headers}/${folder}/${name}.h)
    set(present "")
    if(EXISTS ${header})
      file(READ ${header} present)
    endif()
    if(NOT present STREQUAL text)
      file(WRITE ${header} ${text})
    endif()
  endforeach()
endfunction()

add_libtorch_headers(torch torch all arg autograd cuda data enum expanding_array nn optim ordered_dict
                     serialize types utils fft special script)
add_libtorch_headers(torch/nn cloneable functional init module modules options pimpl utils)
add_libtorch_headers(torch/data dataloader datasets samplers transforms dataloader_options example iterator
                     worker_exception)
add_libtorch_headers(torch/optim adam optimizer sgd adagrad adamw lbfgs rmsprop serialize)
add_libtorch_headers(ATen ATen Dispatch TensorIndexing Functions)
add_libtorch_headers(ATen/core Tensor Generator grad_mode ivalue)
add_libtorch_headers(c10/core Device ScalarType DeviceType GradMode InferenceMode Scalar TensorOptions
                     MemoryFormat Layout)
add_libtorch_headers(c10/util ArrayRef Exception Optional irange BFloat16 Half complex flat_hash_map
                     string_view StringUtil OptionalArrayRef)
add_libtorch_headers(torch/nn/modules common utils)
add_libtorch_headers(torch/nn/modules/container any functional moduledict modulelist named_any parameterdict
                     parameterlist sequential)
add_libtorch_headers(torch/nn/utils clip_grad convert_parameters rnn)
add_libtorch_headers(torch/optim/schedulers lr_scheduler step_lr reduce_on_plateau_scheduler)
add_libtorch_headers(torch/data/dataloader base stateful stateless)
add_libtorch_headers(torch/data/datasets base chunk map mnist shared stateful tensor)
add_libtorch_headers(torch/data/samplers base custom_batch_request distributed random sequential serialize
                     stream)
add_libtorch_headers(torch/data/transforms base collate lambda stack tensor)
add_libtorch_headers(torch/serialize archive input-archive output-archive tensor)
add_libtorch_headers(c10/macros Macros)
foreach(folder modules options functional)
  add_libtorch_headers(torch/nn/${folder} activation adaptive batchnorm conv distance dropout embedding fold
                       instancenorm linear loss normalization padding pixelshuffle pooling rnn transformer
                       transformercoder transformerlayer upsampling vision)
endforeach()
