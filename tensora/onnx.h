#pragma once

// ONNX: export of functions and modules, and import of files. Link Tensora::onnx.

#include "tensora/onnx/export.h"
#include "tensora/onnx/import.h"
#include "tensora/onnx/proto.h"
