#pragma once

// The functions of oneDNN's C interface that convolutions use, versions 2 and 3 alike. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tensora::cpu {

using DnnlDims = std::array<int64_t, 12>;

/// How an array lies in memory. Version 2 describes it in a struct of the caller's, version 3 in an
/// object of its own; in both a pointer stands for it.
using DnnlLayout = std::shared_ptr<const void>;

/// The sizes of a convolution in oneDNN's order: large is the source of a forward convolution.
struct DnnlConvolution {
  bool backward_data = false;
  int spatial = 2;
  DnnlLayout large, weight, bias, small;  // no bias: null
  DnnlDims strides = {}, dilates = {}, padding_before = {}, padding_after = {};
};

struct DnnlArg {
  int index;
  void* memory;
};

/// Everything is used under OneDnnOnThisThread. A status other than 0 is an error.
struct OneDnnFunctions {
  int (*memory_create)(void** memory, const void* layout, void* engine, void* data) = nullptr;
  int (*memory_destroy)(void* memory) = nullptr;
  size_t (*layout_size)(const void* layout) = nullptr;
  int (*layouts_equal)(const void* a, const void* b) = nullptr;
  int (*reorder_describe)(void** description, const void* from, void* from_engine, const void* to,
                          void* to_engine, const void* attributes) = nullptr;
  int (*primitive_create)(void** primitive, const void* description) = nullptr;
  int (*primitive_destroy)(void* primitive) = nullptr;
  int (*primitive_execute)(const void* primitive, void* stream, int count,
                           const DnnlArg* args) = nullptr;
  int (*description_destroy)(void* description) = nullptr;
  const void* (*description_layout)(const void* description, int what, int index) = nullptr;
  int (*description_query)(const void* description, int what, int index, void* result) = nullptr;
  int (*stream_create)(void** stream, void* engine, unsigned flags) = nullptr;

  void* engine = nullptr;
  void* attributes = nullptr;  // scratch memory comes from the caller

  /// With given strides; none: oneDNN may choose. Null on failure.
  DnnlLayout (*layout)(int dims, const DnnlDims& sizes, const DnnlDims* strides) = nullptr;
  /// The description of a convolution; null where there is none.
  void* (*describe)(const DnnlConvolution& convolution) = nullptr;
};

/// Null where oneDNN is not installed, not allowed by TENSORA_BLAS, or of an unknown version.
const OneDnnFunctions* onednn_functions();

/// Values of the C interface.
inline constexpr int kDnnlQueryImplementation = 8, kDnnlQuerySource = 129,
                     kDnnlQueryDiffSource = 130, kDnnlQueryWeight = 131, kDnnlQueryTarget = 133,
                     kDnnlQueryDiffTarget = 134, kDnnlQueryScratch = 136;
inline constexpr int kDnnlArgSource = 1, kDnnlArgTarget = 17, kDnnlArgWeight = 33,
                     kDnnlArgBias = 41, kDnnlArgScratch = 80, kDnnlArgDiffSource = 129,
                     kDnnlArgDiffTarget = 145;

}  // namespace tensora::cpu
