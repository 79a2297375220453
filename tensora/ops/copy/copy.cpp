#include "tensora/ops/copy/copy.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/creation/empty.h"

namespace tensora {

constexpr auto describe(std::type_identity<ToDeviceAttrs>) {
  return fields(field("device", &ToDeviceAttrs::device));
}
constexpr auto describe(std::type_identity<CastAttrs>) {
  return fields(field("dtype", &CastAttrs::dtype));
}

namespace {

// The ops below as a copy into new memory, for devices where only `copy` has a kernel.
Tensors copied(const Tensor& from, const Strides& strides, DType dtype) {
  Tensors result;
  result.push_back(empty_strided(from.sizes(), strides, {.dtype = dtype, .device = from.device()}));
  copy_(result[0], from);
  return result;
}

// Only the quant ops read the contents of blocks.
void check_conversion(const Infer& infer, DType from, DType to) {
  infer.check(from == to || (!is_quantized(from) && !is_quantized(to)), "cannot convert ", from,
              " to ", to, "; use quantize or dequantize");
}

// Whether the CPU has to convert: other devices move uint16, uint32 and uint64, no more.
bool by_way_of_host(const Tensor& from, DType to) {
  return from.dtype() != to && (is_wide_unsigned(from.dtype()) || is_wide_unsigned(to));
}

Strides kept_strides(const Tensor& x) { return tensora::kept_strides(x.sizes(), x.strides()); }

}  // namespace

constinit OpDef<NoAttrs> copy_op = define(Op<NoAttrs>{
    .name = "copy",
    .inputs = {"self", "src"},
    .primitive = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          infer.check(can_broadcast_to(infer[1].sizes(), infer[0].sizes()), "a source of shape ",
                      infer[1].sizes(), " cannot be broadcast to shape ", infer[0].sizes());
          check_conversion(infer, infer[1].dtype(), infer[0].dtype());
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .vjp = [](Vjp& vjp, const NoAttrs&) { vjp.set(1, vjp.grad()); },
    .accepts = kAllDTypes,
});

constinit OpDef<NoAttrs> clone_op = define(Op<NoAttrs>{
    .name = "clone",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor& x = infer[0];
          infer.output(x.sizes(), kept_strides(x), x.dtype());
        },
    .reference =
        [](Args in, const NoAttrs&) {
          return copied(*in[0], kept_strides(*in[0]), in[0]->dtype());
        },
    .vjp = [](Vjp& vjp, const NoAttrs&) { vjp.set(0, vjp.grad()); },
    .accepts = kAllDTypes,
});

constinit OpDef<NoAttrs> contiguous_op = define(Op<NoAttrs>{
    .name = "contiguous",
    .inputs = {"self"},
    .infer = [](Infer& infer, const NoAttrs&) { infer.output(infer[0].sizes(), infer[0].dtype()); },
    .reference =
        [](Args in, const NoAttrs&) {
          return copied(*in[0], contiguous_strides(in[0]->sizes()), in[0]->dtype());
        },
    .vjp = [](Vjp& vjp, const NoAttrs&) { vjp.set(0, vjp.grad()); },
    .accepts = kAllDTypes,
});

constinit OpDef<CastAttrs> cast_op = define(Op<CastAttrs>{
    .name = "cast",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const CastAttrs& attrs) {
          const Tensor& x = infer[0];
          check_conversion(infer, x.dtype(), attrs.dtype);
          infer.output(x.sizes(), kept_strides(x), attrs.dtype);
        },
    .reference =
        [](Args in, const CastAttrs& attrs) {
          return copied(*in[0], kept_strides(*in[0]), attrs.dtype);
        },
    .vjp = [](Vjp& vjp, const CastAttrs&) { vjp.set(0, vjp.grad()); },  // the engine casts back
    .accepts = kAllDTypes,
});

constinit OpDef<ToDeviceAttrs> to_device_op = define(Op<ToDeviceAttrs>{
    .name = "to_device",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const ToDeviceAttrs& attrs) {
          infer.check(infer[0].is_contiguous(), "expected a contiguous tensor");
          infer.device = attrs.device;
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .reference =
        [](Args in, const ToDeviceAttrs& attrs) {
          // No backend needs a kernel for this: each has copy_bytes.
          const View& from = in[0]->view_of_data();
          Tensors result;
          result.push_back(empty(from.sizes, {.dtype = from.dtype, .device = attrs.device}));
          if (!attrs.device.is_meta() && from.numel != 0)
            copy_bytes(result[0].data_ptr(), attrs.device, in[0]->data_ptr(), from.device,
                       from.bytes());
          return result;
        },
    .vjp = [](Vjp& vjp,
              const ToDeviceAttrs&) { vjp.set(0, vjp.grad()); },  // the engine moves it back
    .accepts = kAllDTypes,
});

void register_copy(OpRegistry& registry) {
  for (const OpDef<NoAttrs>* op : {&copy_op, &clone_op, &contiguous_op}) registry.add(*op);
  registry.add(cast_op);
  registry.add(to_device_op);
  shard_by(copy_op, "*->*");
  shard_by(clone_op, "*->*");
  shard_by(contiguous_op, "*->*");
  shard_by(cast_op, "*->*");
}

const Tensor& copy_(const Tensor& self, const Tensor& src) {
  if (by_way_of_host(src, self.dtype()) && !self.is_cpu() && !self.is_meta())
    return copy_(self, to(to(src, Device(), self.dtype()), self.device()));
  if (self.device() == src.device()) return apply_inplace(copy_op, {self, src});
  // One contiguous transfer, in the source's own dtype.
  return apply_inplace(copy_op, {self, to(src, self.device())});
}

Tensor clone(const Tensor& self) { return apply(clone_op, {self}); }

Tensor contiguous(const Tensor& self) {
  return self.is_contiguous() ? self : apply(contiguous_op, {self});
}

Tensor to(const Tensor& self, DType dtype) {
  if (self.dtype() == dtype) return self;
  if (by_way_of_host(self, dtype) && !self.is_cpu() && !self.is_meta())
    return to(to(self, Device(), dtype), self.device());
  return apply(cast_op, {self}, {dtype});
}

Tensor to(const Tensor& self, Device device) {
  if (self.device() == device) return self;
  check(!self.is_meta(), "to: a meta tensor has no data to copy to ", device);
  require_device(device);
  return apply(to_device_op, {contiguous(self)}, {device});
}

Tensor to(const Tensor& self, Device device, DType dtype) {
  // Narrow before the transfer, widen after it.
  if (element_size(dtype) < element_size(self.dtype())) return to(to(self, dtype), device);
  return to(to(self, device), dtype);
}

Tensor to(const Tensor& self, DType dtype, Device device) { return to(self, device, dtype); }

Tensor to(const Tensor& self, const TensorOptions& options) {
  check(!options.requires_grad, "to: cannot make the result require grad; call requires_grad_()");
  return to(self, options.device.value_or(self.device()), options.dtype.value_or(self.dtype()));
}

Tensor to(const Tensor& self, const Tensor& other) {
  return to(self, other.device(), other.dtype());
}

Tensor type_as(const Tensor& self, const Tensor& other) { return to(self, other); }

Tensor Tensor::cpu() const { return tensora::to(*this, DeviceType::cpu); }
Tensor Tensor::cuda() const { return tensora::to(*this, DeviceType::cuda); }

}  // namespace tensora
