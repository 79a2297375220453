# The CUDA backend: every *_cuda.cu of the rooms, the generated pointwise kernels and backend/cuda,
# in one library that is opened only when a CUDA device is asked for.
set(build_cuda OFF)
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS tensora/*.cu tensora/backend/cuda/*.cpp
     tensora/jit/emit_cuda*.cpp)
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
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  file(GLOB generated_cuda ${generated}/src/*_cuda.cu)
  add_library(tensora_cuda SHARED ${cuda_sources} ${generated_cuda}
              ${generated}/src/register_cuda_kernels.cpp)
  set_target_properties(tensora_cuda PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
                        CUDA_ARCHITECTURES "80-real;90" CUDA_RUNTIME_LIBRARY Static)
  target_include_directories(tensora_cuda PRIVATE ${PROJECT_SOURCE_DIR} ${generated}/include)
  target_compile_options(tensora_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -Xcudafe
      --diag_suppress=20012,20013,20014,20015 --threads=2>)
  target_link_libraries(tensora_cuda PRIVATE tensora CUDA::cublasLt CUDA::nvrtc CUDA::cuda_driver)
  target_link_options(tensora_cuda PRIVATE $<$<CONFIG:Release>:-Wl,-s>)
endif()
