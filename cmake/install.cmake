# What `cmake --install` copies: the program `tensora`, headers (the generated ones too), libraries, and
# the package files with which another project says find_package(Tensora) and links Tensora::tensora,
# Tensora::llm for language models, Tensora::distributed for several ranks, Tensora::onnx for ONNX files,
# or Tensora::cuda to use more of the CUDA backend than tensors on a CUDA device
# (tensora/backend/cuda/cuda.h). The Python package is a component of its own: python/CMakeLists.txt.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(tensora_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tensora)

set(tensora_libraries tensora tensora_llm tensora_distributed tensora_onnx tensora_libtorch)
install(TARGETS ${tensora_libraries} EXPORT TensoraTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${libtorch_headers}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensora/libtorch/include)
foreach(library tensora_mpi tensora_nccl)
  if(TARGET ${library})
    install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    list(APPEND tensora_libraries ${library})
  endif()
endforeach()
if(TARGET tensora_cuda)
  install(TARGETS tensora_cuda EXPORT TensoraTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  list(APPEND tensora_libraries tensora_cuda)
endif()
# The same run path in the build tree: what CMake would replace when it installs is a list of empty
# names there, which the loader takes for the working directory.
set_target_properties(${tensora_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN"
                      BUILD_WITH_INSTALL_RPATH ON)

# A build of the library alone has no program.
if(TARGET tensora-cli)
  file(RELATIVE_PATH to_libraries /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set(run_path "$ORIGIN/../lib" "$ORIGIN/${to_libraries}")  # in a build or a wheel; in a prefix
  list(REMOVE_DUPLICATES run_path)
  set_target_properties(tensora-cli PROPERTIES INSTALL_RPATH "${run_path}" BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS tensora-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/tensora ${generated}/include/tensora
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "tensora/torch" EXCLUDE)
if(TARGET tensora_torch)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tensora/torch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensora
          FILES_MATCHING PATTERN "*.h")
  install(TARGETS tensora_torch tensora_framework_libtorch LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES $<TARGET_FILE_DIR:tensora_framework_libtorch>/libtensora_framework_hybrid.so
          DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT TensoraTargets NAMESPACE Tensora:: DESTINATION ${tensora_package_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/TensoraConfig.cmake.in ${PROJECT_BINARY_DIR}/TensoraConfig.cmake
  INSTALL_DESTINATION ${tensora_package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/TensoraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TensoraConfig.cmake
              ${PROJECT_BINARY_DIR}/TensoraConfigVersion.cmake
        DESTINATION ${tensora_package_dir})
