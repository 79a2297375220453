#pragma once

// Batches of matrices as the CUDA libraries take them: column by column, at equal distances.

#include <optional>
#include <string_view>
#include <vector>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/core/kernel.h"
#include "tensora/core/view.h"

namespace tensora::cuda {

/// A batch of matrices stored by columns, or by rows where `turned`: then it is the transpose that
/// is stored by columns.
struct ColumnBatch {
  char* data = nullptr;
  int64_t ld = 1;           // elements from one column to the next
  int64_t batch_bytes = 0;  // from one matrix to the next
  bool turned = false;

  template <class T>
  T* at(int64_t index) const {
    return reinterpret_cast<T*>(data + index * batch_bytes);
  }
};

enum class MatrixOrder { columns, columns_or_rows };

/// An operand in such a layout, its batch dims broadcast to `batch`: itself where its strides allow
/// it, else a copy.
class Columns {
 public:
  Columns(const KernelContext& context, const View& view, const Shape& batch,
          MatrixOrder order = MatrixOrder::columns);
  const ColumnBatch& matrices() const { return matrices_; }

 private:
  ColumnBatch matrices_;
  std::optional<Scratch> copy_;
};

/// An output of the layout that the op's rule gave it, by columns.
ColumnBatch columns_of(const View& view);

/// The addresses of the matrices, in the memory of the device.
class PointerArray {
 public:
  PointerArray(const KernelContext& context, const ColumnBatch& matrices, int64_t count);
  template <class T>
  T** as() const {
    return reinterpret_cast<T**>(memory_.data());
  }

 private:
  Scratch memory_;
};

/// Waits for the device and copies status numbers to the host.
std::vector<int32_t> read_infos(const KernelContext& context, const View& infos);

}  // namespace tensora::cuda
