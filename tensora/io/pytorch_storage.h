#pragma once

// Internal header: what the readers of PyTorch's formats share.

#include <optional>

#include "tensora/io/pytorch.h"
#include "tensora/io/zip_reader.h"

namespace tensora::io {

/// A storage of `count` elements, or bytes where there is no dtype, as a one-dimensional uint8
/// tensor over the leading bytes of `data`, on the device that the options name.
Tensor storage_tensor(const std::string& key, const OwnedBytes& data, std::optional<DType> dtype,
                      int64_t count, const LoadOptions& options);

/// Loads a file of the format that PyTorch wrote before 1.6.
Value load_legacy_pytorch(const std::shared_ptr<MappedFile>& file, const LoadOptions& options);

}  // namespace tensora::io
