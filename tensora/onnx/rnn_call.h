#pragma once

// Internal header: recurrent layers as one op of the trace.

#include "tensora/dispatch/interceptor.h"
#include "tensora/ops/rnn/rnn_layer.h"

namespace tensora::onnx {

/// rnn_layer with a rule for its results. The library's own op has none and is traced as its steps;
/// ONNX has operators for whole layers, which work for sequences of any length.
extern OpDef<RnnLayerAttrs> whole_rnn_layer_op;

/// Records layers of recurrent networks as whole_rnn_layer where ONNX's operators can express them:
/// all sequences of one length, and no projection.
class KeepsRnnLayers final : public Interceptor {
 public:
  Tensors intercept(const Call& call) override;
  void before_read(const Tensor& tensor) override { below()->before_read(tensor); }
};

}  // namespace tensora::onnx
