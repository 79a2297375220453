#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "tensora/core/tensor.h"
#include "tensora/io/byte_reader.h"

namespace tensora::io {

/// A file in memory. The mapping is private: pages are read when they are first touched, and what
/// is written to them never reaches the file. Replacing or deleting the file (as every writer here
/// does) leaves the mapping as it was; truncating it in place ends the process with SIGBUS at the
/// next access to a page that is gone. Copy what must survive that (LoadOptions::copy).
class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return bytes_; }

 private:
  explicit MappedFile(Bytes bytes) : bytes_(bytes) {}

  Bytes bytes_;
};

/// A tensor over bytes that `owner` keeps alive, row-major or with `strides`; a copy where their
/// address does not suit the dtype. Booleans other than 0 and 1 become 1.
Tensor tensor_over(Bytes bytes, const Shape& sizes, const Strides& strides, DType dtype,
                   std::shared_ptr<void> owner);
Tensor tensor_over(Bytes bytes, const Shape& sizes, DType dtype, std::shared_ptr<void> owner);

/// The bytes of a dense tensor of these sizes; throws for negative sizes and on overflow.
uint64_t dense_bytes(const Shape& sizes, DType dtype);

/// The tensor as its writers need it: on the CPU, row-major, outside the graph. `name` is for the
/// error about a tensor that has no contents.
Tensor writable_form(const Tensor& tensor, std::string_view name);

/// The bytes of a tensor that is row-major and on the CPU.
ConstBytes contents(const Tensor& tensor);

/// Runs `body`; its errors get the function's and the file's name.
template <class Body>
auto reading(std::string_view function, const std::string& path, const Body& body)
    -> decltype(body()) {
  try {
    return body();
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const Error& error) {
    fail(function, ": '", path, "': ", error.what());
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(concat(function, ": '", path, "': there is not enough memory"));
  }
}

}  // namespace tensora::io
