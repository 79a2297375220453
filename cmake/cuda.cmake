# The CUDA backend: every *_cuda.cu of the rooms, the generated pointwise kernels and backend/cuda,
# in one library that is opened only when a CUDA device is asked for.
set(build_cuda OFF)
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS tensora/*.cu tensora/backend/cuda/*.cpp)
if(NOT TENSORA_CUDA STREQUAL "OFF" AND cuda_sources)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(build_cuda ON)
  elseif(TENSORA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TENSORA_CUDA is ON, but no CUDA compiler (nvcc) was found")
  endif()
endif()
if(build_cuda)
  # Note [One PTX, several architectures]
  # Most of a kernel's compile time is spent on the way to PTX. One PTX for compute capability 8.0
  # is assembled for 8.0 and 9.0, and shipped for the driver to compile on anything newer. What only
  # Hopper has (wgmma, setmaxnreg) exists for one architecture that nothing else runs: a source
  # whose name ends in _sm90a.cu is compiled for it alone, and the host asks runs_sm90a(device)
  # (backend/cuda/runtime/runtime.h) before it launches such a kernel. A source whose name ends in
  # _early.cu has kernels that begin early where the architecture can, which is a matter of the PTX:
  # it has one for 8.0 and one for 9.0. With TENSORA_CUDA_PTX_ONLY the other sources end at their PTX
  # and nothing is optimised, which takes a third of the time: for machines that compile the kernels
  # and never run them.
  option(TENSORA_CUDA_PTX_ONLY "Compile most CUDA sources to PTX alone, as a check" OFF)
  function(tensora_cuda_architectures)  # of the sources given
    foreach(source ${ARGN})
      set(unoptimised "")
      if(TENSORA_CUDA_PTX_ONLY)
        set(unoptimised -Xcicc -O0)
      endif()
      if(source MATCHES "_sm90a\\.cu$")
        set(unoptimised "")  # ptxas wants registers where unoptimised code has arrays
        set(architecture "-gencode=arch=compute_90a,code=sm_90a")
      elseif(source MATCHES "_early\\.cu$")
        set(architecture "-gencode=arch=compute_90,code=compute_90")
        if(NOT TENSORA_CUDA_PTX_ONLY)
          set(architecture "-gencode=arch=compute_80,code=sm_80"
                           "-gencode=arch=compute_90,code=[sm_90,compute_90]")
        endif()
      elseif(source MATCHES "\\.cu$")
        set(architecture "-gencode=arch=compute_80,code=compute_80")
        if(NOT TENSORA_CUDA_PTX_ONLY)
          set(architecture "-gencode=arch=compute_80,code=[sm_80,sm_90,compute_80]")
        endif()
      else()
        continue()
      endif()
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${architecture} ${unoptimised})
    endforeach()
  endfunction()
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  enable_language(CUDA)
  if(TENSORA_CUDA_PTX_ONLY)  # the host's side; device code is the functions' above
    set(CMAKE_CUDA_FLAGS_RELEASE "-O0 -DNDEBUG")
  endif()
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it yet
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  file(GLOB generated_cuda ${generated}/src/*_cuda.cu)
  add_library(tensora_cuda SHARED ${cuda_sources} ${generated_cuda}
              ${generated}/src/register_cuda_kernels.cpp)
  tensora_cuda_architectures(${cuda_sources} ${generated_cuda})
  # Encoders of quantized blocks find the same bytes as on the CPU.
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/tensora/ops/quant/quantize_cuda.cu APPEND PROPERTY
               COMPILE_OPTIONS -fmad=false)
  add_library(Tensora::cuda ALIAS tensora_cuda)
  set_target_properties(tensora_cuda PROPERTIES EXPORT_NAME cuda CUDA_STANDARD 20
                        CUDA_ARCHITECTURES OFF CUDA_RUNTIME_LIBRARY Static)
  target_include_directories(tensora_cuda PRIVATE ${PROJECT_SOURCE_DIR} ${generated}/include)
  target_include_directories(tensora_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  # Kernels shrink to a fourth when packed for size; a module is unpacked when it is first used.
  target_compile_options(tensora_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda
      -diag-suppress=20012,20013,20014,20015
      --compress-mode=size>
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wno-sign-conversion
      $<$<BOOL:${TENSORA_WERROR}>:-Werror>>)
  # cuBLASLt and NVRTC are opened when they are first needed, so that a machine without them still
  # has everything else.
  target_link_libraries(tensora_cuda PUBLIC tensora PRIVATE dl)
  # See Note [Hardening].
  target_link_options(tensora_cuda PRIVATE $<$<CONFIG:Release>:-Wl,-s> ${hardened_link})
endif()
