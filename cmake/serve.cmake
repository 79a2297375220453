# The server: a static library of its own, which the program and its tests link; libtensora does not
# grow by it. Beast and Asio are headers that take long to compile: http_parser.cpp alone includes
# Beast, http_connection.cpp and http_server.cpp the few parts of Asio that they need.
file(GLOB serve_sources CONFIGURE_DEPENDS tensora/serve/*.cpp)
find_package(nlohmann_json QUIET)
find_package(Boost 1.74 QUIET)
find_package(OpenSSL QUIET)
if(NOT nlohmann_json_FOUND OR NOT Boost_FOUND)
  message(STATUS "The server is left out: Boost 1.74 or nlohmann_json was not found")
  return()
endif()
set(page ${generated}/serve_page.cpp)
add_custom_command(
  OUTPUT ${page}
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/embed_page.py
          ${PROJECT_SOURCE_DIR}/tensora/serve/page/index.html ${page}
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed_page.py
          ${PROJECT_SOURCE_DIR}/tensora/serve/page/index.html
  COMMENT "Embedding the chat page")
add_library(tensora_serve STATIC ${serve_sources} ${page})
set_target_properties(tensora_serve PROPERTIES TENSORA_LEVEL -O2 POSITION_INDEPENDENT_CODE ON)
target_compile_options(tensora_serve PRIVATE ${untrusted_flags})
target_include_directories(tensora_serve SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
# Each io_context is run by one thread, and its queue has a lock: Asio's memory fences around handlers
# order nothing more, and ThreadSanitizer does not know fences.
target_compile_definitions(tensora_serve PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
target_link_libraries(tensora_serve PUBLIC tensora_llm nlohmann_json::nlohmann_json
                                    PRIVATE tensora_flags)
if(OPENSSL_FOUND)
  target_link_libraries(tensora_serve PRIVATE OpenSSL::SSL)
  target_compile_definitions(tensora_serve PRIVATE TENSORA_HAS_TLS)
endif()
