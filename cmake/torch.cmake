# The frameworks libtorch and hybrid (tensora/torch): libtensora_torch.so is linked with LibTorch, and
# libtensora_framework_libtorch.so, a small library without it, opens it once the version is checked.
# libtensora_llm.so links neither. Without PyTorch they are left out, and nothing else changes.
set(TENSORA_TORCH AUTO CACHE STRING "Build the frameworks libtorch and hybrid: AUTO (if PyTorch is found), ON or OFF")
set(TENSORA_TORCH_DIR "$ENV{TENSORA_TORCH_DIR}" CACHE PATH
    "The folder of the Python package torch, or of an unpacked LibTorch; empty: python3 is asked")

function(tensora_torch_left_out reason)
  if(TENSORA_TORCH STREQUAL "ON")
    message(FATAL_ERROR "TENSORA_TORCH is ON, but ${reason}")
  endif()
  message(STATUS "The frameworks libtorch and hybrid are left out: ${reason}")
endfunction()

if(TENSORA_TORCH STREQUAL "OFF" OR TENSORA_SANITIZE)
  tensora_torch_left_out("TENSORA_TORCH is ${TENSORA_TORCH}, sanitizer '${TENSORA_SANITIZE}'")
  return()
endif()
set(torch_dir ${TENSORA_TORCH_DIR})
if(NOT torch_dir)
  # Only its place is wanted: importing it takes seconds.
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT torch_dir)
  tensora_torch_left_out("${Python3_EXECUTABLE} has no torch, and TENSORA_TORCH_DIR is not set")
  return()
endif()
set(torch_version "")
if(EXISTS ${torch_dir}/build-version)
  file(STRINGS ${torch_dir}/build-version torch_version LIMIT_COUNT 1)
elseif(EXISTS ${torch_dir}/version.py)
  file(STRINGS ${torch_dir}/version.py torch_version LIMIT_COUNT 1 REGEX "^__version__ *=")
  string(REGEX REPLACE "^[^'\"]*['\"]([^'\"]*)['\"].*$" "\\1" torch_version "${torch_version}")
endif()
if(NOT torch_version OR NOT EXISTS ${torch_dir}/lib/libtorch_cpu.so
   OR NOT EXISTS ${torch_dir}/include/ATen/ATen.h)
  tensora_torch_left_out("there is no LibTorch with headers in '${torch_dir}'")
  return()
endif()

file(GLOB torch_sources CONFIGURE_DEPENDS tensora/torch/*.cpp)
list(FILTER torch_sources EXCLUDE REGEX "/loader\\.cpp$")
add_library(tensora_torch SHARED ${torch_sources})
set_target_properties(tensora_torch PROPERTIES TENSORA_LEVEL -O2
                      BUILD_RPATH "${torch_dir}/lib" INSTALL_RPATH "$ORIGIN;${torch_dir}/lib")
# find_package(Torch) would bring in the CUDA toolkit and its own flags: paths are enough.
target_include_directories(tensora_torch SYSTEM PUBLIC ${torch_dir}/include)
target_link_libraries(tensora_torch PUBLIC tensora_llm PRIVATE tensora_flags)
target_link_options(tensora_torch PRIVATE -Wl,--no-as-needed)
target_link_libraries(tensora_torch PUBLIC ${torch_dir}/lib/libtorch_cpu.so
                                           ${torch_dir}/lib/libc10.so)
# The CUDA headers of the wheel's own version, or the toolkit's. Wheels leave out the compiler's, which
# those need: then the toolkit's.
file(GLOB torch_cuda_folders ${torch_dir}/../nvidia/*/include)
list(APPEND torch_cuda_folders ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
set(torch_cuda_folder "")
foreach(folder ${torch_cuda_folders})
  if(NOT torch_cuda_folder AND EXISTS ${folder}/cuda_runtime_api.h AND EXISTS ${folder}/crt/host_defines.h)
    set(torch_cuda_folder ${folder})
  endif()
endforeach()
set(torch_devices "the CPU")
if(EXISTS ${torch_dir}/lib/libtorch_cuda.so AND torch_cuda_folder)
  target_include_directories(tensora_torch SYSTEM PUBLIC ${torch_cuda_folder})
  target_compile_definitions(tensora_torch PUBLIC TENSORA_TORCH_CUDA)
  target_link_libraries(tensora_torch PUBLIC ${torch_dir}/lib/libtorch_cuda.so
                                             ${torch_dir}/lib/libc10_cuda.so)
  set(torch_devices "the CPU and CUDA")
endif()

add_library(tensora_framework_libtorch SHARED tensora/torch/loader.cpp)
set_target_properties(tensora_framework_libtorch PROPERTIES TENSORA_LEVEL -O1 INSTALL_RPATH "$ORIGIN")
target_compile_definitions(tensora_framework_libtorch PRIVATE
                           TENSORA_TORCH_FOLDER="${torch_dir}"
                           TENSORA_TORCH_BUILT_FOR="${torch_version}")
target_link_libraries(tensora_framework_libtorch PRIVATE tensora_llm tensora_flags dl)
add_dependencies(tensora_framework_libtorch tensora_torch)
add_custom_command(TARGET tensora_framework_libtorch POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE_NAME:tensora_framework_libtorch>
          $<TARGET_FILE_DIR:tensora_framework_libtorch>/libtensora_framework_hybrid.so)
message(STATUS "The frameworks libtorch and hybrid use PyTorch ${torch_version} in ${torch_dir}, on ${torch_devices}")
