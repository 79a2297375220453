#include "tensora/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tensora/ops.h"

namespace tensora::io {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

std::string system_message() { return std::generic_category().message(errno); }

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its other end.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  check(file.number >= 0, "it cannot be opened: ", system_message());
  struct stat status {};
  check(fstat(file.number, &status) == 0, "it cannot be examined: ", system_message());
  check(S_ISREG(status.st_mode), S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile({}));
  void* address =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
  check(address != MAP_FAILED, "it cannot be mapped: ", system_message());
  return std::shared_ptr<MappedFile>(new MappedFile({static_cast<uint8_t*>(address), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

uint64_t dense_bytes(const Shape& sizes, DType dtype) {
  for (int64_t size : sizes) check(size >= 0, "the shape ", sizes, " has a negative size");
  const int64_t count = storage_extent(sizes, contiguous_strides(sizes), 0, "shape");
  return static_cast<uint64_t>(
      multiply_sizes(count, static_cast<int64_t>(element_size(dtype)), "shape"));
}

Tensor tensor_over(Bytes bytes, const Shape& sizes, const Strides& strides, DType dtype,
                   std::shared_ptr<void> owner) {
  ensure(bytes.size() == dense_bytes(sizes, dtype), "tensor_over: ", bytes.size(), " bytes for ",
         sizes, " of ", dtype);
  if (bytes.empty()) return empty_strided(sizes, strides, {.dtype = dtype, .device = Device()});
  // Any other byte would not be a bool to the compiler.
  if (dtype == kBool)
    for (uint8_t& byte : bytes)
      if (byte > 1) byte = 1;
  const size_t alignment = element_size(real_dtype(dtype));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0)
    return from_blob(bytes.data(), sizes, strides, TensorOptions{.dtype = dtype}, std::move(owner));
  Tensor copy = make_tensor(sizes, strides, dtype, Device());
  std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
  return copy;
}

Tensor tensor_over(Bytes bytes, const Shape& sizes, DType dtype, std::shared_ptr<void> owner) {
  return tensor_over(bytes, sizes, contiguous_strides(sizes), dtype, std::move(owner));
}

Tensor writable_form(const Tensor& tensor, std::string_view name) {
  check(tensor.defined(), "'", name, "' is an undefined tensor");
  check(!tensor.is_meta(), "'", name, "' is a meta tensor, which has no contents");
  check(!tensor.is_quantized(), "'", name, "' is a ", tensor.dtype(),
        " tensor, which this format cannot hold");
  return tensor.detach().cpu().contiguous();
}

ConstBytes contents(const Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  return {static_cast<const uint8_t*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace tensora::io
