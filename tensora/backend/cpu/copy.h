#pragma once

#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

/// Copies with cast and broadcast: any dtypes, any strides; `from` must broadcast to `to`.
void copy_elements(const View& from, const View& to);

}  // namespace tensora::cpu::TENSORA_ISA
