// Where sample inputs lie in memory, and the guards around them.
#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xff};

int64_t extent_of(const Shape& sizes, const Strides& strides, int64_t offset) {
  if (sizes.numel() == 0) return offset;
  for (int d = 0; d < sizes.size(); ++d) offset += (sizes[d] - 1) * strides[d];
  return offset + 1;
}

size_t position_of(const Shape& index, const Strides& strides, int64_t offset) {
  for (int d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return static_cast<size_t>(offset);
}

Layout make_layout(const Shape& sizes, const Strides& strides, int64_t offset) {
  return {strides, offset, extent_of(sizes, strides, offset)};
}

// Row-major strides of the dims taken in `order` (outermost first), each step widened by `step`,
// and `pad` elements left out after every run of the innermost dim.
Strides strides_in_order(const Shape& sizes, const Dims& order, int64_t step, int64_t pad) {
  Strides strides = Shape::filled(sizes.size(), 1);
  int64_t reach = step;
  for (int k = order.size() - 1; k >= 0; --k) {
    const int d = static_cast<int>(order[k]);
    strides[d] = reach;
    reach *= std::max<int64_t>(sizes[d], 1);
    if (k == order.size() - 1) reach += pad;
  }
  return strides;
}

Dims row_major(int count) {
  Dims order;
  for (int d = 0; d < count; ++d) order.push_back(d);
  return order;
}

Layout transposed(const Shape& sizes) {
  Dims order = row_major(sizes.size());
  if (sizes.size() >= 2) std::swap(order[sizes.size() - 1], order[sizes.size() - 2]);
  return make_layout(sizes, strides_in_order(sizes, order, 1, 0), 0);
}

Layout column_major(const Shape& sizes) {
  Dims order = row_major(sizes.size());
  std::reverse(order.begin(), order.end());
  return make_layout(sizes, strides_in_order(sizes, order, 1, 0), 0);
}

Layout stepped(const Shape& sizes) {
  return make_layout(sizes, strides_in_order(sizes, row_major(sizes.size()), 2, 0), 1);
}

Layout with_offset(const Shape& sizes) { return make_layout(sizes, contiguous_strides(sizes), 3); }

Layout padded_rows(const Shape& sizes) {
  return make_layout(sizes, strides_in_order(sizes, row_major(sizes.size()), 1, 5), 2);
}

// Dims of size 1 may have any stride; 0 is what expanding leaves behind.
Layout unit_dims_odd(const Shape& sizes) {
  Layout layout = contiguous_layout(sizes);
  for (int d = 0; d < sizes.size(); ++d)
    if (sizes[d] == 1) layout.strides[d] = d % 2 == 0 ? 0 : 7;
  return layout;
}

// The first dim outermost is the rule; here it is the second.
Layout rotated_with_gaps(const Shape& sizes) {
  Dims order = row_major(sizes.size());
  if (sizes.size() >= 2) std::rotate(order.begin(), order.begin() + 1, order.end());
  return make_layout(sizes, strides_in_order(sizes, order, 3, 1), 4);
}

constexpr NamedLayout kLayouts[] = {
    {"transposed", transposed},
    {"column-major", column_major},
    {"sliced with step", stepped},
    {"with storage offset", with_offset},
    {"with padded rows", padded_rows},
    {"unit dims with odd strides", unit_dims_odd},
    {"rotated dims with gaps", rotated_with_gaps},
};

}  // namespace

Layout contiguous_layout(const Shape& sizes) {
  return make_layout(sizes, contiguous_strides(sizes), 0);
}

std::span<const NamedLayout> strided_layouts() { return kLayouts; }

Placed::Placed(const Array& values, DType dtype, const Layout& layout, Device device) {
  const size_t width = element_size(dtype);
  const size_t extent_bytes = static_cast<size_t>(layout.extent) * width;
  memory_ = std::make_shared<std::vector<std::byte>>(extent_bytes + 2 * kGuardBytes, kGuard);
  int64_t position = 0;
  Array::each(values.sizes, [&](const Shape& index) {
    const size_t at = kGuardBytes + position_of(index, layout.strides, layout.offset) * width;
    store_element(memory_->data() + at, dtype, values[position++]);
  });
  before_ = *memory_;

  std::byte* const start = memory_->data() + kGuardBytes;
  IntrusivePtr<Storage> storage;
  if (device.is_cpu()) {
    storage = Storage::wrap(start, extent_bytes, device, memory_);
  } else {
    const IntrusivePtr<Storage> guarded = Storage::allocate(memory_->size(), device);
    if (device.is_meta()) {
      storage = guarded;
    } else {
      backend(device.type)
          .copy_bytes(guarded->data(), device, memory_->data(), Device(), memory_->size());
      // The tensor's storage lies between the guards and keeps them alive.
      storage = Storage::wrap(static_cast<std::byte*>(guarded->data()) + kGuardBytes, extent_bytes,
                              device, std::make_shared<IntrusivePtr<Storage>>(guarded));
    }
  }
  tensor_ = make_view(storage, values.sizes, layout.strides, layout.offset, dtype);
}

std::vector<std::byte> Placed::bytes_now() const {
  std::vector<std::byte> now = *memory_;
  const Device device = tensor_.device();
  if (!device.is_cpu() && !device.is_meta())
    backend(device.type)
        .copy_bytes(now.data(), Device(),
                    static_cast<const std::byte*>(tensor_.impl().storage->data()) - kGuardBytes,
                    device, now.size());
  return now;
}

// Per byte, whether it belongs to an element.
std::vector<bool> Placed::element_bytes() const {
  std::vector<bool> result(memory_->size(), false);
  const size_t width = tensor_.element_size();
  Array::each(tensor_.sizes(), [&](const Shape& index) {
    const size_t at =
        kGuardBytes + position_of(index, tensor_.strides(), tensor_.storage_offset()) * width;
    std::fill_n(result.begin() + static_cast<int64_t>(at), width, true);
  });
  return result;
}

void Placed::require_unchanged(std::string_view what) const {
  if (bytes_now() == before_) return;
  require_guards_intact(what);
  throw Failure(concat(what, " was modified"));
}

void Placed::require_guards_intact(std::string_view what) const {
  const std::vector<std::byte> now = bytes_now();
  const std::vector<bool> is_element = element_bytes();
  for (size_t i = 0; i < now.size(); ++i)
    require(is_element[i] || now[i] == kGuard, what, ": a byte outside of its elements (at ",
            static_cast<int64_t>(i) - static_cast<int64_t>(kGuardBytes),
            " from the start of the storage) was written");
}

}  // namespace tensora::suite
