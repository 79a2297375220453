# libtensora_llm.so: the engine of language models (tensora/llm) and the training runs of language
# models and image classifiers (tensora/train). A library of its own, because a program that needs
# tensors, modules and optimizers loads none of it. Its objects are compiled in the object libraries of
# libtensora, whose flags and precompiled headers they share; here they are linked.
add_library(tensora_llm SHARED)
foreach(part ${tensora_parts})
  target_sources(tensora_llm PRIVATE $<FILTER:$<TARGET_OBJECTS:${part}>,INCLUDE,${llm_objects}>)
endforeach()
add_library(Tensora::llm ALIAS tensora_llm)
set_target_properties(tensora_llm PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME llm
                      VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_libraries(tensora_llm PUBLIC tensora PRIVATE tensora_flags Threads::Threads dl)
target_link_options(tensora_llm PRIVATE ${tensora_link_options})
