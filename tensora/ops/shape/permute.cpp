#include "tensora/ops/shape/permute.h"

#include "tensora/dispatch/op.h"

#include <utility>

namespace tensora {

constexpr auto describe(std::type_identity<PermuteAttrs>) {
  return fields(field("dims", &PermuteAttrs::dims));
}

namespace {

Dims identity(int count) {
  Dims dims;
  for (int d = 0; d < count; ++d) dims.push_back(d);
  return dims;
}

Dims inverse(const Dims& dims) {
  Dims result = dims;
  for (int d = 0; d < dims.size(); ++d) result[static_cast<int>(dims[d])] = d;
  return result;
}

Tensor exchange(const Tensor& self, int64_t dim0, int64_t dim1, std::string_view op) {
  const int a = wrap_dim(dim0, self.dim(), op), b = wrap_dim(dim1, self.dim(), op);
  Dims dims = identity(self.dim());
  if (!dims.empty()) std::swap(dims[a], dims[b]);
  return apply(permute_op, {self}, {dims});
}

}  // namespace

constinit OpDef<PermuteAttrs> permute_op = define(Op<PermuteAttrs>{
    .name = "permute",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const PermuteAttrs& attrs) {
          const Tensor& x = infer[0];
          infer.check(attrs.dims.size() == x.dim(), "expected ", x.dim(), " dims for a tensor of ",
                      x.dim(), " dimensions, got ", attrs.dims);
          Shape sizes;
          Strides strides;
          for (int64_t dim : wrap_dims(attrs.dims, x.dim(), infer.op)) {
            sizes.push_back(x.sizes()[static_cast<int>(dim)]);
            strides.push_back(x.strides()[static_cast<int>(dim)]);
          }
          infer.view(sizes, strides, x.storage_offset());
        },
    .vjp =
        [](Vjp& vjp, const PermuteAttrs& attrs) {
          const Dims dims = wrap_dims(attrs.dims, attrs.dims.size(), "permute");
          vjp.set(0, permute(vjp.grad(), inverse(dims)));
        },
    .view = true,
});

void register_permute(OpRegistry& registry) { registry.add(permute_op); }

Tensor permute(const Tensor& self, const Dims& dims) { return apply(permute_op, {self}, {dims}); }

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  return exchange(self, dim0, dim1, "transpose");
}
Tensor swapaxes(const Tensor& self, int64_t axis0, int64_t axis1) {
  return exchange(self, axis0, axis1, "swapaxes");
}
Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1) {
  return exchange(self, dim0, dim1, "swapdims");
}

Tensor t(const Tensor& self) {
  check(self.dim() <= 2, "t: expected a tensor with at most 2 dimensions, got ", self.dim());
  return self.dim() == 2 ? exchange(self, 0, 1, "t") : permute(self, identity(self.dim()));
}

Tensor mT(const Tensor& self) {
  check(self.dim() != 1, "mT: expected a matrix or a batch of matrices, got shape ", self.sizes());
  if (self.dim() == 0) return permute(self, {});
  return exchange(self, -2, -1, "mT");
}

Tensor movedim(const Tensor& self, const Dims& source, const Dims& destination) {
  check(source.size() == destination.size(), "movedim: source ", source, " and destination ",
        destination, " must name the same number of dims");
  if (source.empty()) return permute(self, identity(self.dim()));
  const Dims from = wrap_dims(source, self.dim(), "movedim: source");
  const Dims to = wrap_dims(destination, self.dim(), "movedim: destination");
  Dims dims = Dims::filled(self.dim(), -1);
  for (int i = 0; i < from.size(); ++i) dims[static_cast<int>(to[i])] = from[i];
  int next = 0;
  for (int64_t& dim : dims) {
    if (dim >= 0) continue;
    while (from.contains(next)) ++next;
    dim = next++;
  }
  return permute(self, dims);
}

}  // namespace tensora
