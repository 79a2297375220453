#include "tensora/llm/gguf/gguf_format.h"

namespace tensora::llm {
namespace {

constexpr GgufType kTypes[] = {
    {0, "F32", kFloat32},    {1, "F16", kFloat16},    {2, "Q4_0", kQ4_0},
    {3, "Q4_1", kQ4_1},      {6, "Q5_0", kQ5_0},      {7, "Q5_1", kQ5_1},
    {8, "Q8_0", kQ8_0},      {9, "Q8_1", {}},         {10, "Q2_K", kQ2_K},
    {11, "Q3_K", kQ3_K},     {12, "Q4_K", kQ4_K},     {13, "Q5_K", kQ5_K},
    {14, "Q6_K", kQ6_K},     {15, "Q8_K", {}},        {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},      {18, "IQ3_XXS", {}},     {19, "IQ1_S", {}},
    {20, "IQ4_NL", kIQ4_NL}, {21, "IQ3_S", {}},       {22, "IQ2_S", {}},
    {23, "IQ4_XS", kIQ4_XS}, {24, "I8", kInt8},       {25, "I16", kInt16},
    {26, "I32", kInt32},     {27, "I64", kInt64},     {28, "F64", kFloat64},
    {29, "IQ1_M", {}},       {30, "BF16", kBFloat16}, {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},       {39, "MXFP4", kMXFP4},   {40, "NVFP4", {}},
    {41, "Q1_0", {}},        {42, "Q2_0", {}},
};

}  // namespace

const GgufType* gguf_type(uint32_t id) {
  for (const GgufType& type : kTypes)
    if (type.id == id) return &type;
  return nullptr;
}

const GgufType* gguf_type(DType dtype) {
  for (const GgufType& type : kTypes)
    if (type.dtype == dtype) return &type;
  return nullptr;
}

}  // namespace tensora::llm
