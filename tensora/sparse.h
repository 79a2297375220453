#pragma once

// Sparse tensors in COO and CSR form. See docs/sparse.md.

#include "tensora/sparse/elementwise.h"
#include "tensora/sparse/gradient.h"
#include "tensora/sparse/products.h"
#include "tensora/sparse/sparse_tensor.h"
