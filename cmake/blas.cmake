# The matrix libraries behind backend/cpu/gemm: a BLAS without threads of its own, and oneDNN.
find_path(TENSORA_CBLAS_INCLUDE cblas.h
          PATH_SUFFIXES x86_64-linux-gnu/openblas-serial openblas-serial openblas REQUIRED)
find_library(TENSORA_OPENBLAS openblas
             PATH_SUFFIXES openblas-serial x86_64-linux-gnu/openblas-serial REQUIRED)
find_path(TENSORA_DNNL_INCLUDE dnnl.h REQUIRED)
find_library(TENSORA_DNNL dnnl REQUIRED)
add_library(tensora_blas INTERFACE)
target_include_directories(tensora_blas SYSTEM INTERFACE ${TENSORA_CBLAS_INCLUDE}
                           ${TENSORA_DNNL_INCLUDE})
target_link_libraries(tensora_blas INTERFACE ${TENSORA_OPENBLAS} ${TENSORA_DNNL})
