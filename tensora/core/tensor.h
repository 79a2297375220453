#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tensora/core/accessor.h"
#include "tensora/core/memory_format.h"
#include "tensora/core/scalar.h"
#include "tensora/core/storage.h"
#include "tensora/core/tensor_options.h"
#include "tensora/core/thread_state.h"
#include "tensora/core/view.h"

namespace tensora {

class TensorIterator;
class Node;
struct TensorIndex;

/// Base of the autograd data that hangs on a tensor; its contents belong to autograd/.
struct AutogradData {
  virtual ~AutogradData() = default;
};

/// The body of a tensor; shared by all handles to it.
struct TensorImpl final : RefCounted, Pooled {
  View view;
  IntrusivePtr<Storage> storage;
  int64_t offset = 0;  // of the first element in the storage, in elements
  AutogradData* autograd = nullptr;
  bool requires_grad = false;   // as a leaf, or through its history
  bool wrapped_number = false;  // came from a C++ number: yields to tensors in type promotion
  bool inference = false;       // made under inference_mode: never enters a graph
  bool selected_copy = false;   // by `x.index({mask})`: writing to it would not reach x
  bool owns_wrapper = false;    // nobody else holds the wrapper any more: it goes with the tensor
  void* wrapper = nullptr;      // the object that another language, such as Python, has for it

  ~TensorImpl() {
    delete autograd;
    if (owns_wrapper) [[unlikely]]
      release_wrapper(wrapper);
  }
  /// Set by a binding to another language before it makes its first wrapper.
  static inline void (*release_wrapper)(void* wrapper) noexcept = nullptr;
  static void destroy(TensorImpl* impl) { delete impl; }
};

/// A handle to an n-dimensional array. Copying the handle shares the array; `clone` copies it.
/// Every op of tensora/ops whose first parameter is called `self` is also a method.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;

  /// Assignment to a named tensor rebinds the handle; assignment to a temporary writes to it, so
  /// that `x[0] = y` and `x.index({Slice(), 1}) = 5` change x.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  const Tensor& operator=(const Tensor& value) && { return write(value); }
  const Tensor& operator=(Tensor&& value) && { return write(value); }  // NOLINT: it may throw
  const Tensor& operator=(Scalar value) && { return write(value); }

  bool defined() const { return static_cast<bool>(impl_); }
  /// Makes this handle an undefined tensor.
  void reset() noexcept { impl_.reset(); }
  explicit operator bool() const = delete;  // ask `defined()`, or `item<bool>()`

  const Shape& sizes() const { return impl().view.sizes; }
  const Shape& shape() const { return sizes(); }
  int64_t size(int64_t dim) const { return sizes()[wrap_dim(dim, this->dim(), "size")]; }
  const Strides& strides() const { return impl().view.strides; }
  int64_t stride(int64_t dim) const { return strides()[wrap_dim(dim, this->dim(), "stride")]; }
  int dim() const { return sizes().size(); }
  int64_t numel() const { return impl().view.numel; }
  int64_t ndimension() const { return dim(); }
  DType dtype() const { return impl().view.dtype; }
  DType scalar_type() const { return dtype(); }
  Device device() const { return impl().view.device; }
  int get_device() const { return device().index; }
  /// Dtype, device and whether it requires grad, for a factory to make another one like it.
  TensorOptions options() const {
    return {.dtype = dtype(), .device = device(), .requires_grad = requires_grad()};
  }
  Layout layout() const { return Layout::strided; }
  /// Bytes of an element; a quantized tensor has none, only blocks.
  size_t element_size() const {
    check(!tensora::is_quantized(dtype()), "element_size: a ", dtype(), " tensor has blocks of ",
          tensora::element_size(dtype()), " bytes");
    return tensora::element_size(dtype());
  }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return impl().view.bytes(); }
  int64_t storage_offset() const { return impl().offset; }
  bool is_contiguous() const { return impl().view.contiguous; }
  bool is_floating_point() const { return tensora::is_floating_point(dtype()); }
  bool is_complex() const { return tensora::is_complex(dtype()); }
  bool is_quantized() const { return tensora::is_quantized(dtype()); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_meta() const { return device().is_meta(); }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_storage(const Tensor& other) const { return impl().storage == other.impl().storage; }
  /// The memory that this tensor and its views share.
  const Storage& storage() const {
    data_ptr();  // computes a deferred tensor
    return *impl().storage;
  }

  void* data_ptr() const {
    const View& view = impl().view;
    if (!view.data || thread_state.deferral) [[unlikely]]
      settle_data();
    return view.data;
  }
  /// The address of the first element; throws if `T` is not the tensor's dtype.
  template <class T>
  T* data_ptr() const {
    check(dtype() == dtype_of<T>, "data_ptr: the tensor holds ", dtype(), ", not ", dtype_of<T>);
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  /// Unchecked access to the elements of a CPU tensor that has N dims: `accessor<float,
  /// 2>()[i][j]`.
  template <class T, int N>
  TensorAccessor<T, N> accessor() const {
    check(dim() == N, "accessor: expected a tensor of ", N, " dims, got shape ", sizes());
    check(is_cpu(), "accessor: the tensor is on ", device(), ", not on the cpu");
    return {elements<T>("accessor"), sizes().data(), strides().data()};
  }
  /// One element of a CPU tensor, to read or write; negative indices count from the end.
  template <class T>
  T& at(const Shape& index) const {
    check(is_cpu(), "at: the tensor is on ", device(), ", not on the cpu");
    return elements<T>("at")[element_offset(index)];
  }
  /// The offset of the element at `index` from the first one, in elements of the storage.
  int64_t element_offset(const Shape& index) const;
  /// The single element as a number; waits for the device. Throws if `T` cannot hold it.
  Scalar item() const;
  template <class T>
  T item() const {
    const Scalar value = item();
    if constexpr (std::is_arithmetic_v<T>)
      check(value.fits<T>(), "item: the element ", to_string(),
            " cannot be converted to the type that was asked for without overflow");
    return value.to<T>();
  }

  /// The same tensor on the host, or on the first GPU; itself if it is there already.
  Tensor cpu() const;
  Tensor cuda() const;

  /// Overwrites the elements with integers in [0, high).
  const Tensor& random_(int64_t high) const;
  /// The same as to(dtype), by LibTorch's name.
  Tensor toType(DType dtype) const { return to(dtype); }

  /// Element or sub-tensor along the first dim, as `x[i]`; a view.
  Tensor operator[](int64_t index) const;
  /// The same as `index({i})`: `x[mask]`, `x[Slice(1, 3)]`.
  Tensor operator[](const TensorIndex& index) const;
  /// NumPy-style indexing: `x.index({1, Slice(0, 4), None, Ellipsis})`; see ops/index/index.h.
  Tensor index(std::initializer_list<TensorIndex> indices) const;
  Tensor index(const std::vector<TensorIndex>& indices) const;
  /// Assignment to such a part.
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Tensor& value) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, Scalar value) const;
  const Tensor& index_put_(const std::vector<TensorIndex>& indices, const Tensor& value) const;
  const Tensor& index_put_(const std::vector<TensorIndex>& indices, Scalar value) const;
  /// With `accumulate`, adds the value, once for each time a location occurs.
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Tensor& value,
                           bool accumulate) const;
  const Tensor& index_put_(const std::vector<TensorIndex>& indices, const Tensor& value,
                           bool accumulate) const;
  /// The parts along the first dim, one after the other: `for (const Tensor& row : x)`.
  TensorIterator begin() const;
  TensorIterator end() const;

  // Autograd.
  bool requires_grad() const {
    return impl().requires_grad || (impl().autograd && gets_history_from_base());
  }
  const Tensor& requires_grad_(bool value = true) const;
  const Tensor& set_requires_grad(bool value) const { return requires_grad_(value); }
  bool is_leaf() const;
  /// The graph node that made this tensor; null for a leaf.
  IntrusivePtr<Node> grad_fn() const;
  /// The accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  /// The accumulated gradient, to assign to; no backward may run meanwhile.
  Tensor& mutable_grad() const;
  /// Keeps the gradient of this non-leaf tensor in `grad()`.
  void retain_grad() const;
  bool retains_grad() const;
  /// Fills `grad()` of the leaves this tensor was computed from. `gradient` may be left out for a
  /// single element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  /// `retain_graph` left out means the same as `create_graph`.
  void backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph) const;
  /// The same, but fills only `grad()` of `inputs`, which need not be leaves.
  void backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                const std::vector<Tensor>& inputs) const;
  /// Calls `hook` with the gradient of this tensor when it is known; what it returns, if defined,
  /// replaces the gradient. The result undoes the registration when called.
  std::function<void()> register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// The same for a hook that only looks at the gradient.
  template <class Hook>
    requires std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>>
  std::function<void()> register_hook(Hook hook) const {
    return register_hook([hook = std::move(hook)](const Tensor& grad) mutable -> Tensor {
      hook(grad);
      return {};
    });
  }
  /// Undoes a registration; the same as calling what `register_hook` returned.
  void remove_hook(const std::function<void()>& registration) const { registration(); }
  /// Calls `hook` with this leaf as soon as a backward has completed its gradient, while the rest
  /// still runs; it may read, replace or reset `grad()` and write to the leaf. The handle it gets
  /// shares the leaf's data and gradient. The result undoes the registration when called.
  std::function<void()> register_post_accumulate_grad_hook(
      std::function<void(const Tensor& leaf)> hook) const;
  /// The same data outside the graph.
  Tensor detach() const;
  /// The same as detach(), by LibTorch's other name.
  Tensor data() const { return detach(); }
  Tensor tensor_data() const { return detach(); }
  Tensor variable_data() const { return detach(); }
  /// Makes this leaf, and so every handle to it, hold the array of `other`, which may have another
  /// shape, dtype, device or layout. Hooks stay; a gradient that no longer fits is dropped.
  void set_data(const Tensor& other) const;
  /// Detaches this tensor itself from the graph.
  const Tensor& detach_() const;
  /// Counts in-place writes to the storage.
  uint32_t version() const { return impl().storage->version(); }
  uint32_t _version() const { return version(); }
  /// Which output of `grad_fn()` this tensor is.
  uint32_t output_nr() const;
  bool is_inference() const { return impl().inference; }
  /// Whether this is a view that autograd tracks as part of another tensor.
  bool is_view() const;

  /// The same bytes as elements of another dtype. A template, so that `view({})` means a shape.
  template <class Type>
    requires std::is_same_v<Type, DType>
  Tensor view(Type dtype) const {
    return view_dtype(dtype);
  }

  /// PyTorch's printed form.
  std::string to_string() const;

#include "tensora/core/tensor_methods.inc"

  TensorImpl& impl() const {
    if (!impl_) [[unlikely]]
      throw_undefined_tensor();
    return *impl_;
  }
  const IntrusivePtr<TensorImpl>& impl_ptr() const { return impl_; }
  /// The body, as a key of maps; null for an undefined tensor.
  TensorImpl* unsafeGetTensorImpl() const { return impl_.get(); }
  const View& view_of_data() const { return impl().view; }

 private:
  const Tensor& write(const Tensor& value) const;
  const Tensor& write(Scalar value) const;
  template <class T>
  T* elements(std::string_view op) const {
    using Element = std::remove_const_t<T>;
    check(dtype() == dtype_of<Element>, op, ": the tensor holds ", dtype(), ", not ",
          dtype_of<Element>);
    return static_cast<T*>(data_ptr());
  }
  // A view whose base was written to after the view was taken has the base's new history.
  bool gets_history_from_base() const;

  // Computes a deferred tensor, and what is still to read or write its memory. Throws for a tensor
  // of a function that is being traced, which has no data.
  void settle_data() const;

  IntrusivePtr<TensorImpl> impl_;
};

namespace detail {
// Tells this thread's interceptor that the host is about to read an element.
void announce_read(const Tensor& tensor);
}  // namespace detail

/// Walks the first dim of a tensor.
class TensorIterator {
 public:
  using value_type = Tensor;
  using difference_type = int64_t;

  TensorIterator() = default;
  TensorIterator(Tensor tensor, int64_t position)
      : tensor_(std::move(tensor)), position_(position) {}
  Tensor operator*() const { return tensor_[position_]; }
  TensorIterator& operator++() {
    ++position_;
    return *this;
  }
  TensorIterator operator++(int) {
    TensorIterator before = *this;
    ++position_;
    return before;
  }
  bool operator==(const TensorIterator& other) const { return position_ == other.position_; }

 private:
  Tensor tensor_;
  int64_t position_ = 0;
};

inline void append(std::string& out, const Tensor& tensor) { out += tensor.to_string(); }

/// A new tensor with uninitialised contents; the base of all factories.
Tensor make_tensor(const Shape& sizes, DType dtype, Device device);
Tensor make_tensor(const Shape& sizes, const Strides& strides, DType dtype, Device device);
/// A tensor over part of an existing storage.
Tensor make_view(IntrusivePtr<Storage> storage, const Shape& sizes, const Strides& strides,
                 int64_t offset, DType dtype);
/// A number as a 0-dim CPU tensor that yields to real tensors in type promotion.
Tensor wrap_number(Scalar number);

}  // namespace tensora

// As a key of sets and maps a tensor is its identity: two handles to one tensor are equal.
template <>
struct std::hash<tensora::Tensor> {
  size_t operator()(const tensora::Tensor& tensor) const noexcept {
    return std::hash<const void*>()(tensor.impl_ptr().get());
  }
};
template <>
struct std::equal_to<tensora::Tensor> {
  bool operator()(const tensora::Tensor& a, const tensora::Tensor& b) const noexcept {
    return a.is_same(b);
  }
};
template <>
struct std::less<tensora::Tensor> {
  bool operator()(const tensora::Tensor& a, const tensora::Tensor& b) const noexcept {
    return std::less<const void*>()(a.impl_ptr().get(), b.impl_ptr().get());
  }
};
