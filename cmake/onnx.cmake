# libtensora_onnx.so: export to ONNX and import from it. A library of its own, because few programs need
# it; it reads files of strangers (Note [Hardening]).
file(GLOB onnx_sources CONFIGURE_DEPENDS tensora/onnx/*.cpp)
add_library(tensora_onnx SHARED ${onnx_sources})
add_library(Tensora::onnx ALIAS tensora_onnx)
set_target_properties(tensora_onnx PROPERTIES EXPORT_NAME onnx TENSORA_LEVEL -Os
                      VERSION ${PROJECT_VERSION} SOVERSION 0)
target_compile_options(tensora_onnx PRIVATE -fvisibility-inlines-hidden ${untrusted_flags})
target_link_libraries(tensora_onnx PUBLIC tensora PRIVATE tensora_flags)
target_link_options(tensora_onnx PRIVATE $<$<CONFIG:Release>:-Wl,-s>
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
                    $<$<STREQUAL:${TENSORA_SANITIZE},>:-Wl,-z,defs>)
if(TENSORA_PCH)
  target_precompile_headers(tensora_onnx PRIVATE <algorithm> <filesystem> tensora/dispatch/op.h
                                                 ${generated}/include/tensora/ops.h)
endif()
