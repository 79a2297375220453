#pragma once

// Quantized tensors hold blocks of numbers with a common scale, as files of language models do.
// They can be made, copied, moved to another device, sliced along rows, and brought back; every
// other op refuses them by name but those made for them (quant_linear and its kin). blocks.h lists
// the formats; every device encodes them into the same bytes.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct QuantizeAttrs {
  DType dtype = DType::q8_0;
};
extern OpDef<QuantizeAttrs> quantize_op;

struct DequantizeAttrs {
  DType dtype = DType::float32;
};
extern OpDef<DequantizeAttrs> dequantize_op;

/// The nearest numbers that `dtype` can hold, block by block along the last dim, whose size must be
/// whole blocks.
Tensor quantize(const Tensor& self, DType dtype);
/// The numbers of a quantized tensor.
Tensor dequantize(const Tensor& self, DType dtype = DType::float32);

}  // namespace tensora
