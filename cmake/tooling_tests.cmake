# Tests of what surrounds the library: the dev script, the lints, the installed package, the documents.

add_test(NAME tools.dev COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/dev_test.py)
add_test(NAME tools.lint COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/lint/selftest.py)
add_test(NAME tools.doc_snippets
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/run_doc_snippets_test.py)

set(sanitizer_flags "")
if(TENSORA_SANITIZE STREQUAL "address")
  set(sanitizer_flags "-fsanitize=address,undefined")
elseif(TENSORA_SANITIZE)
  set(sanitizer_flags "-fsanitize=${TENSORA_SANITIZE}")
endif()

add_test(NAME docs.snippets
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/run_doc_snippets.py
                 --root ${PROJECT_SOURCE_DIR} --work ${PROJECT_BINARY_DIR}/doc_snippets
                 --compiler ${CMAKE_CXX_COMPILER} --library $<TARGET_FILE:tensora>
                 --include ${PROJECT_SOURCE_DIR} --include ${generated}/include
                 --include ${libtorch_headers} --library $<TARGET_FILE:tensora_libtorch>
                 --library $<TARGET_FILE:tensora_llm> --library $<TARGET_FILE:tensora_distributed>
                 --library $<TARGET_FILE:tensora_onnx>
                 "--flag=${sanitizer_flags}")
add_test(NAME install.find_package
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/find_package/run.py
                 --cmake ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR}
                 --work ${PROJECT_BINARY_DIR}/find_package
                 --compiler ${CMAKE_CXX_COMPILER} "--flags=${sanitizer_flags}")
set(hardened_folders ${PROJECT_BINARY_DIR}/bin ${PROJECT_BINARY_DIR}/lib)
if(TENSORA_BUILD_PYTHON)
  list(APPEND hardened_folders ${PROJECT_BINARY_DIR}/python)
endif()
add_test(NAME hardening
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/hardening/hardening_test.py
                 ${hardened_folders} "${PROJECT_BINARY_DIR}/find_package/second place")
set_tests_properties(hardening PROPERTIES DEPENDS install.find_package)  # which installs there
# The limit holds for the library as it is installed: a Release build with the kernels of all
# instruction sets of x86-64. A wheel has no packed relocations, which would spare it half a megabyte.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TENSORA_SANITIZE AND NOT SKBUILD)
  add_test(NAME install.library_size
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/hardening/library_size_test.py
                   $<TARGET_FILE:tensora> --limit 20000000)
endif()
add_test(NAME install.subproject
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/subproject/run.py
                 --cmake ${CMAKE_COMMAND} --work ${PROJECT_BINARY_DIR}/subproject
                 --compiler ${CMAKE_CXX_COMPILER})
add_test(NAME headers.clang
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/headers/clang_test.py
                 --include ${PROJECT_SOURCE_DIR} --include ${generated}/include)
set_tests_properties(headers.clang PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME docs.add_an_op
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/add_an_op_test.py
                 --root ${PROJECT_SOURCE_DIR} --build ${PROJECT_BINARY_DIR})
add_test(NAME docs.add_a_model
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/add_a_model_test.py
                 --root ${PROJECT_SOURCE_DIR} --build ${PROJECT_BINARY_DIR})
if(TARGET tensora-cli)
  add_test(NAME docs.add_a_framework
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/add_a_framework_test.py
                   --root ${PROJECT_SOURCE_DIR} --build ${PROJECT_BINARY_DIR})
endif()
add_test(NAME docs.add_a_quant_type
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/add_a_quant_type_test.py
                 --root ${PROJECT_SOURCE_DIR} --build ${PROJECT_BINARY_DIR})
add_test(NAME generate
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/generate_test.py
                 ${PROJECT_SOURCE_DIR})
add_test(NAME docs.add_a_backend
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/add_a_backend_test.py
                 --root ${PROJECT_SOURCE_DIR} --build ${PROJECT_BINARY_DIR})
add_test(NAME docs.links
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/links_test.py
                 --root ${PROJECT_SOURCE_DIR})
add_test(NAME docs.settings
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/settings_test.py
                 --root ${PROJECT_SOURCE_DIR})
add_test(NAME docs.class_reference
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/docs/class_reference_test.py
                 --root ${PROJECT_SOURCE_DIR} --work ${PROJECT_BINARY_DIR}/class_reference)
add_test(NAME docs.libtorch_names
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/libtorch/names_test.py
                 --compiler ${CMAKE_CXX_COMPILER} --root ${PROJECT_SOURCE_DIR}
                 --include ${PROJECT_SOURCE_DIR} --include ${generated}/include
                 --include ${libtorch_headers})
