#include "tensora/backend/cpu/onednn_functions.h"

#include <dlfcn.h>

#include <memory>
#include <optional>

#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/gemm_library.h"
#include "tensora/base/fork.h"

namespace tensora::cpu {
namespace {

constexpr int kFloat = 3, kAnyTag = 1, kDirect = 1, kInference = 96, kCpuEngine = 1,
              kCallersScratch = 1;

/// Version 2's descriptions are structs of less than 1 and 4 KiB that its functions fill in.
struct alignas(16) LayoutOf2 {
  std::byte bytes[2048];
};
struct alignas(16) ConvolutionOf2 {
  std::byte bytes[16384];
};

template <class Function>
bool find(Function*& function, const char* symbol) {
  function = reinterpret_cast<Function*>(dlsym(onednn().library, symbol));
  return function != nullptr;
}

// ---- version 2 ----

struct Version2 {
  int (*by_strides)(void*, int, const int64_t*, int, const int64_t*) = nullptr;
  int (*by_tag)(void*, int, const int64_t*, int, int) = nullptr;
  int (*forward)(void*, int, int, const void*, const void*, const void*, const void*,
                 const int64_t*, const int64_t*, const int64_t*, const int64_t*) = nullptr;
  int (*backward)(void*, int, const void*, const void*, const void*, const int64_t*, const int64_t*,
                  const int64_t*, const int64_t*) = nullptr;
  int (*describe)(void**, const void*, const void*, void*, const void*) = nullptr;

  bool load() {
    return find(by_strides, "dnnl_memory_desc_init_by_strides") &&
           find(by_tag, "dnnl_memory_desc_init_by_tag") &&
           find(forward, "dnnl_dilated_convolution_forward_desc_init") &&
           find(backward, "dnnl_dilated_convolution_backward_data_desc_init") &&
           find(describe, "dnnl_primitive_desc_create");
  }
};
Version2 version2;

DnnlLayout layout_of_2(int dims, const DnnlDims& sizes, const DnnlDims* strides) {
  auto layout = std::make_shared<LayoutOf2>();
  const int status =
      strides ? version2.by_strides(layout.get(), dims, sizes.data(), kFloat, strides->data())
              : version2.by_tag(layout.get(), dims, sizes.data(), kFloat, kAnyTag);
  return status == 0 ? DnnlLayout(std::move(layout)) : nullptr;
}

void* create_2(const void* convolution, const void* hint) {
  const OneDnnFunctions& functions = *onednn_functions();
  void* description = nullptr;
  const int status =
      version2.describe(&description, convolution, functions.attributes, functions.engine, hint);
  return status == 0 ? description : nullptr;
}

void* describe_2(const DnnlConvolution& c) {
  const auto what = std::make_unique<ConvolutionOf2>();
  if (version2.forward(what.get(), kInference, kDirect, c.large.get(), c.weight.get(), c.bias.get(),
                       c.small.get(), c.strides.data(), c.dilates.data(), c.padding_before.data(),
                       c.padding_after.data()) != 0)
    return nullptr;
  void* const forward = create_2(what.get(), nullptr);
  if (!c.backward_data || !forward) return forward;
  void* backward = nullptr;
  if (version2.backward(what.get(), kDirect, c.large.get(), c.weight.get(), c.small.get(),
                        c.strides.data(), c.dilates.data(), c.padding_before.data(),
                        c.padding_after.data()) == 0)
    backward = create_2(what.get(), forward);
  onednn_functions()->description_destroy(forward);
  return backward;
}

// ---- version 3 ----

struct Version3 {
  int (*with_strides)(void**, int, const int64_t*, int, const int64_t*) = nullptr;
  int (*with_tag)(void**, int, const int64_t*, int, int) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*forward)(void**, void*, int, int, const void*, const void*, const void*, const void*,
                 const int64_t*, const int64_t*, const int64_t*, const int64_t*,
                 const void*) = nullptr;
  int (*backward)(void**, void*, int, const void*, const void*, const void*, const int64_t*,
                  const int64_t*, const int64_t*, const int64_t*, const void*,
                  const void*) = nullptr;

  bool load() {
    return find(with_strides, "dnnl_memory_desc_create_with_strides") &&
           find(with_tag, "dnnl_memory_desc_create_with_tag") &&
           find(destroy, "dnnl_memory_desc_destroy") &&
           find(forward, "dnnl_convolution_forward_primitive_desc_create") &&
           find(backward, "dnnl_convolution_backward_data_primitive_desc_create");
  }
};
Version3 version3;

DnnlLayout layout_of_3(int dims, const DnnlDims& sizes, const DnnlDims* strides) {
  void* layout = nullptr;
  const int status =
      strides ? version3.with_strides(&layout, dims, sizes.data(), kFloat, strides->data())
              : version3.with_tag(&layout, dims, sizes.data(), kFloat, kAnyTag);
  if (status != 0) return nullptr;
  return {layout, [](void* made) { version3.destroy(made); }};
}

void* describe_3(const DnnlConvolution& c) {
  const OneDnnFunctions& functions = *onednn_functions();
  void *forward = nullptr, *backward = nullptr;
  if (version3.forward(&forward, functions.engine, kInference, kDirect, c.large.get(),
                       c.weight.get(), c.bias.get(), c.small.get(), c.strides.data(),
                       c.dilates.data(), c.padding_before.data(), c.padding_after.data(),
                       functions.attributes) != 0)
    return nullptr;
  if (!c.backward_data) return forward;
  if (version3.backward(&backward, functions.engine, kDirect, c.large.get(), c.weight.get(),
                        c.small.get(), c.strides.data(), c.dilates.data(), c.padding_before.data(),
                        c.padding_after.data(), forward, functions.attributes) != 0)
    backward = nullptr;
  functions.description_destroy(forward);
  return backward;
}

// ---- both ----

bool load(OneDnnFunctions& f) {
  int (*engine_create)(void**, int, size_t) = nullptr;
  int (*attributes_create)(void**) = nullptr;
  int (*set_scratch)(void*, int) = nullptr;
  const bool complete = find(f.memory_create, "dnnl_memory_create") &&
                        find(f.memory_destroy, "dnnl_memory_destroy") &&
                        find(f.layout_size, "dnnl_memory_desc_get_size") &&
                        find(f.layouts_equal, "dnnl_memory_desc_equal") &&
                        find(f.reorder_describe, "dnnl_reorder_primitive_desc_create") &&
                        find(f.primitive_create, "dnnl_primitive_create") &&
                        find(f.primitive_destroy, "dnnl_primitive_destroy") &&
                        find(f.primitive_execute, "dnnl_primitive_execute") &&
                        find(f.description_destroy, "dnnl_primitive_desc_destroy") &&
                        find(f.description_layout, "dnnl_primitive_desc_query_md") &&
                        find(f.description_query, "dnnl_primitive_desc_query") &&
                        find(f.stream_create, "dnnl_stream_create") &&
                        find(engine_create, "dnnl_engine_create") &&
                        find(attributes_create, "dnnl_primitive_attr_create") &&
                        find(set_scratch, "dnnl_primitive_attr_set_scratchpad_mode");
  if (!complete) return false;
  if (version3.load()) {
    f.layout = layout_of_3;
    f.describe = describe_3;
  } else if (version2.load()) {
    f.layout = layout_of_2;
    f.describe = describe_2;
  } else {
    return false;
  }
  return engine_create(&f.engine, kCpuEngine, 0) == 0 && attributes_create(&f.attributes) == 0 &&
         set_scratch(f.attributes, kCallersScratch) == 0;
}

}  // namespace

const OneDnnFunctions* onednn_functions() {
  const GemmLibraries libraries = allowed_gemm_libraries();
  if (libraries != GemmLibraries::automatic && libraries != GemmLibraries::onednn) return nullptr;
  struct Loaded {
    OneDnnFunctions functions;
    bool complete = onednn().has_primitives && load(functions);
  };
  static constinit MadeOnce<Loaded> loaded;
  const Loaded& found = loaded.get();
  return found.complete ? &found.functions : nullptr;
}

}  // namespace tensora::cpu
