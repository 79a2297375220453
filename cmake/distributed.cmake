# libtensora_distributed.so: groups of ranks and what trains on them. A library of its own, because a
# program of one process needs none of it.
file(GLOB distributed_sources CONFIGURE_DEPENDS tensora/distributed/*.cpp)
add_library(tensora_distributed SHARED ${distributed_sources})
add_library(Tensora::distributed ALIAS tensora_distributed)
set_target_properties(tensora_distributed PROPERTIES EXPORT_NAME distributed TENSORA_LEVEL -O2
                      VERSION ${PROJECT_VERSION} SOVERSION 0)
# The sums of the ranks' numbers are a loop over memory.
set_source_files_properties(tensora/distributed/combine.cpp PROPERTIES
                            COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
target_compile_options(tensora_distributed PRIVATE -fvisibility-inlines-hidden)
target_link_libraries(tensora_distributed PUBLIC tensora_llm PRIVATE tensora_flags Threads::Threads dl)
target_link_options(tensora_distributed PRIVATE $<$<CONFIG:Release>:-Wl,-s>
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
                    $<$<STREQUAL:${TENSORA_SANITIZE},>:-Wl,-z,defs>)

# libtensora_mpi.so: the backend mpi, opened when it is asked for. MPI's binary interface differs from
# one implementation to another, so it is compiled against the one that is installed.
set(TENSORA_MPI AUTO CACHE STRING "Build the MPI backend: AUTO (if MPI is found), ON or OFF")
if(NOT TENSORA_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND AND TENSORA_MPI STREQUAL "ON")
    message(FATAL_ERROR "TENSORA_MPI is ON, but no MPI was found (Debian: libopenmpi-dev)")
  elseif(NOT MPI_CXX_FOUND)
    message(STATUS "The backend mpi is left out: no MPI was found (Debian: libopenmpi-dev)")
  endif()
endif()
if(MPI_CXX_FOUND AND NOT TENSORA_MPI STREQUAL "OFF")
  file(GLOB mpi_sources CONFIGURE_DEPENDS tensora/distributed/mpi/*.cpp)
  add_library(tensora_mpi SHARED ${mpi_sources})
  set_target_properties(tensora_mpi PROPERTIES TENSORA_LEVEL -O2)
  # MPI's handles are casts in a C header.
  target_include_directories(tensora_mpi SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
  target_link_libraries(tensora_mpi PRIVATE tensora_distributed tensora_flags ${MPI_CXX_LIBRARIES})
  target_link_options(tensora_mpi PRIVATE $<$<CONFIG:Release>:-Wl,-s>)
endif()

# libtensora_nccl.so: groups of GPUs. It uses the streams of the CUDA backend; NCCL itself is opened at
# run time.
if(TARGET tensora_cuda)
  file(GLOB nccl_sources CONFIGURE_DEPENDS tensora/distributed/nccl/*.cpp)
  add_library(tensora_nccl SHARED ${nccl_sources})
  set_target_properties(tensora_nccl PROPERTIES TENSORA_LEVEL -O2)
  target_link_libraries(tensora_nccl PRIVATE tensora_distributed tensora_cuda tensora_flags dl)
  target_link_options(tensora_nccl PRIVATE $<$<CONFIG:Release>:-Wl,-s>)
endif()
