// Decompositions of complex matrices. The references compute with real matrices of twice the size,
// see Note [Complex matrices as real ones]: their factors are those of the complex ones.
#include <cmath>
#include <limits>

#include "tensora/ops/linalg/complex_matrices.h"
#include "tensora/ops/linalg/linalg_cases.h"
#include "tensora/ops/linalg/pinv.h"
#include "tensora/ops/linalg/qr.h"
#include "tensora/ops/linalg/svd.h"

namespace tensora::suite {
namespace {

const std::map<Mode, std::string> kLarge = {
    {Mode::grad, "too many elements; the small samples have it"}};
const std::map<Mode, std::string> kResiduals = {
    {Mode::jit, "whether there are residuals depends on the values"}};

/// Pairs of real numbers, … m n 2, as complex ones.
Tensor complex_of(const Tensor& pairs) { return view_as_complex(clone(contiguous(pairs))); }
Tensor adjoint_of(const Tensor& A) { return conj(mT(A)); }

/// … m n 2 as … 2m 2n
Array doubled(const Array& pairs) {
  Shape batch = batch_of(pairs, 3);
  const int64_t m = pairs.sizes[batch.size()], n = pairs.sizes[batch.size() + 1];
  Array out = matrices(batch, 2 * m, 2 * n);
  for (int64_t at = 0; at < pairs.numel() / 2; ++at) {
    const int64_t row = at / n, column = at % n;  // rows of all matrices, one below the other
    double* const above = out.values.data() + (2 * row * n + column) * 2;
    double* const below = above + 2 * n;
    above[0] = below[1] = pairs[2 * at];
    below[0] = pairs[2 * at + 1];
    above[1] = -below[0];
  }
  return out;
}

/// The other way round.
Array pairs_of(const Array& real) {
  Shape sizes = batch_of(real);
  const int64_t n = columns_of(real) / 2;
  for (const int64_t size : {rows_of(real) / 2, n, int64_t{2}}) sizes.push_back(size);
  Array out(sizes);
  for (int64_t at = 0; at < out.numel() / 2; ++at) {
    const int64_t row = at / n, column = at % n;
    for (int64_t part = 0; part < 2; ++part)
      out[2 * at + part] = real[((2 * row + part) * n + column) * 2];
  }
  return out;
}

/// One of each two equal values.
Array every_other(const Array& values) {
  Shape sizes = values.sizes;
  sizes[sizes.size() - 1] /= 2;
  Array out(sizes);
  for (int64_t at = 0; at < out.numel(); ++at) out[at] = values[2 * at];
  return out;
}

// ---- singular values ---------------------------------------------------------------------------

double root_or_zero(double x) { return std::sqrt(std::max(0.0, x)); }
double cubed_root(double x) { return std::pow(root_or_zero(x), 3); }

/// S, U Vh, U S^3 U^H, V S^3 V^H: none depends on the phases of the vectors.
ArrayList singular(const Array& pairs) {
  const Array a = doubled(pairs), turned = transposed(a);
  const bool wide = rows_of(a) < columns_of(a);
  const Eigen left = eigen(product(a, turned)), right = eigen(product(turned, a));
  Array values = (wide ? left : right).values;
  const int64_t k = values.sizes.back();
  const Array ascending = values;
  for (int64_t at = 0; at < values.numel(); ++at)
    values[at] = root_or_zero(ascending[at / k * k + k - 1 - at % k]);
  const Array inverse = function_of(wide ? left : right, [](double x) { return 1 / std::sqrt(x); });
  return {every_other(values), pairs_of(wide ? product(inverse, a) : product(a, inverse)),
          pairs_of(function_of(left, cubed_root)), pairs_of(function_of(right, cubed_root))};
}

void singular_values(Cases& cases) {
  for (const Shape& sizes :
       {Shape{3, 3, 2}, Shape{4, 2, 2}, Shape{2, 2, 3, 2}, Shape{1, 1, 2}, Shape{20, 12, 2}})
    for (const bool full : {false, true})
      cases.add({.op = "linalg_svd",
                 .name = concat("complex ", sizes, full ? ", full" : ""),
                 .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
                 .run =
                     [=](In x) {
                       const Tensor A = complex_of(x[0]);
                       const auto [all_u, S, all_v] = linalg::svd(A, full);
                       const int64_t k = S.size(-1);
                       const Tensor U = narrow(all_u, -1, 0, k), Vh = narrow(all_v, -2, 0, k);
                       const Tensor cubes = S * S * S;
                       return Out{S, view_as_real(matmul(U, Vh)),
                                  view_as_real(matmul(U * unsqueeze(cubes, -2), adjoint_of(U))),
                                  view_as_real(matmul(adjoint_of(Vh) * unsqueeze(cubes, -2), Vh))};
                     },
                 .reference = [](Arrays x) { return singular(x[0]); },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 400,
                 .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  for (const Shape& sizes : {Shape{4, 2, 2}, Shape{2, 2, 3, 2}, Shape{3, 0, 2}})
    cases.add({.op = "linalg_svd",
               .name = concat("complex ", sizes, ", unitary"),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [U, S, Vh] = linalg::svd(complex_of(x[0]));
                     return Out{view_as_real(matmul(adjoint_of(U), U)),
                                view_as_real(matmul(Vh, adjoint_of(Vh)))};
                   },
               .reference =
                   [](Arrays x) {
                     const Array a = doubled(x[0]);
                     const Array left = matrices(batch_of(a), rows_of(a), rows_of(a));
                     const Array right = matrices(batch_of(a), columns_of(a), columns_of(a));
                     return ArrayList{pairs_of(plus_identity(left, 1)),
                                      pairs_of(plus_identity(right, 1))};
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 40,
               .opt_out = {{Mode::grad, "constant"}}});
  cases.add({.op = "linalg_svd",
             .name = "complex, values alone",
             .inputs = {{.sizes = {2, 4, 3, 2}, .low = -1, .high = 1}},
             .run = [](In x) { return one(linalg::svdvals(complex_of(x[0]))); },
             .reference = [](Arrays x) { return one(singular(x[0])[0]); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 100});
}

// ---- eigenvalues -------------------------------------------------------------------------------

Array plus_transposed(Array a) {
  const Array turned = transposed(a);
  for (int64_t i = 0; i < a.numel(); ++i) a[i] += turned[i];
  return a;
}

void eigenvalues(Cases& cases) {
  for (const Shape& sizes :
       {Shape{3, 3, 2}, Shape{2, 4, 4, 2}, Shape{1, 1, 2}, Shape{0, 0, 2}, Shape{15, 15, 2}})
    for (const char* triangle : {"L", "U"})
      cases.add(
          {.op = "linalg_eigh",
           .name = concat("complex ", sizes, triangle),
           .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
           .run =
               [=](In x) {
                 const Tensor A = complex_of(x[0]);
                 const auto [L, V] = linalg::eigh(A + adjoint_of(A), triangle);
                 return Out{L, view_as_real(matmul(V * unsqueeze(exp(L), -2), adjoint_of(V)))};
               },
           .reference =
               [](Arrays x) {
                 const Eigen found = eigen(plus_transposed(doubled(x[0])));
                 return ArrayList{
                     every_other(found.values),
                     pairs_of(function_of(found, [](double l) { return std::exp(l); }))};
               },
           .dtypes = {kFloat32, kFloat64},
           .tolerance = 200,
           .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  // [[2, i], [-i, 3]]; what is not read is 99, and the diagonal's imaginary part.
  cases.add({.op = "linalg_eigh",
             .name = "complex, of one triangle, values alone",
             .inputs = {{.sizes = {2, 2, 2}, .values = {2, 7, 99, 99, 0, -1, 3, 8}}},
             .run = [](In x) { return one(linalg::eigvalsh(complex_of(x[0]))); },
             .reference =
                 [](Arrays) {
                   Array out(Shape{2});
                   out.values = {2.5 - std::sqrt(1.25), 2.5 + std::sqrt(1.25)};
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 10,
             .opt_out = {{Mode::grad, "the gradient is that of a Hermitian matrix"},
                         {Mode::view, "the reference belongs to the listed values"}}});
}

// ---- QR ----------------------------------------------------------------------------------------

/// Q with a positive diagonal of R, by orthogonalising twice.
Array orthonormal_columns(const Array& a) {
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  Array q = matrices(batch_of(a), m, k);
  const auto dot = [&](int64_t b, int64_t x, int64_t y) {
    double sum = 0;
    for (int64_t i = 0; i < m; ++i) sum += q[(b * m + i) * k + x] * q[(b * m + i) * k + y];
    return sum;
  };
  for (int64_t b = 0; b < batch_of(a).numel(); ++b)
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t i = 0; i < m; ++i) q[(b * m + i) * k + j] = a[(b * m + i) * n + j];
      for (int64_t step = 0; step < 2 * j; ++step) {
        const double along = dot(b, step % j, j);
        for (int64_t i = 0; i < m; ++i)
          q[(b * m + i) * k + j] -= along * q[(b * m + i) * k + step % j];
      }
      const double length = std::sqrt(dot(b, j, j));
      for (int64_t i = 0; i < m; ++i) q[(b * m + i) * k + j] /= length;
    }
  return q;
}

void orthogonal_factors(Cases& cases) {
  for (const Shape& sizes :
       {Shape{3, 3, 2}, Shape{4, 2, 2}, Shape{2, 2, 3, 2}, Shape{3, 0, 2}, Shape{20, 12, 2}})
    cases.add({.op = "linalg_qr",
               .name = concat("complex ", sizes),
               .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
               .run =
                   [](In x) {
                     const auto [Q, R] = linalg::qr(complex_of(x[0]));
                     const Tensor on_diagonal = diagonal(R, 0, -2, -1).detach();
                     const Tensor phases = on_diagonal / abs(on_diagonal);
                     return Out{view_as_real(Q * unsqueeze(phases, -2)),
                                view_as_real(R * unsqueeze(conj(phases), -1))};
                   },
               .reference =
                   [](Arrays x) {
                     const Array a = doubled(x[0]), q = orthonormal_columns(a);
                     return ArrayList{pairs_of(q), pairs_of(product(transposed(q), a))};
                   },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 200,
               .opt_out = sizes.numel() > 64 ? kLarge : std::map<Mode, std::string>{}});
  for (const char* mode : {"complete", "r"})
    cases.add(
        {.op = "linalg_qr",
         .name = concat("complex, ", mode),
         .inputs = {{.sizes = {2, 4, 3, 2}, .low = -1, .high = 1}},
         .run =
             [=](In x) {
               const auto [Q, R] = linalg::qr(complex_of(x[0]), mode);
               return Out{view_as_real(matmul(adjoint_of(R), R)),
                          view_as_real(tril(narrow(R, -2, 0, 3), -1))};
             },
         .reference =
             [](Arrays x) {
               const Array a = doubled(x[0]);
               return ArrayList{pairs_of(product(transposed(a), a)), Array(Shape{2, 3, 3, 2})};
             },
         .dtypes = {kFloat32, kFloat64},
         .tolerance = 40,
         .opt_out = {{Mode::grad, "needs the columns of the reduced Q"}}});
}

// ---- what is made of them ----------------------------------------------------------------------

Array pseudo_inverse(const Array& a) {
  const Array turned = transposed(a);
  return rows_of(a) >= columns_of(a) ? product(inverted(product(turned, a)), turned)
                                     : product(turned, inverted(product(a, turned)));
}

/// With 3 on the diagonal: far from singular.
Tensor well_posed(const Tensor& A) {
  return A + 3 * eye(A.size(-2), A.size(-1), {.dtype = A.dtype(), .device = A.device()});
}
Array well_posed(Array pairs) {
  const int last = pairs.sizes.size() - 1;
  const int64_t m = pairs.sizes[last - 2], n = pairs.sizes[last - 1];
  for (int64_t at = 0; at < pairs.numel() / 2; ++at)
    if (at / n % m == at % n) pairs[2 * at] += 3;
  return pairs;
}

void inverses(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 3, 2}, Shape{4, 2, 2}, Shape{2, 2, 3, 2}, Shape{0, 3, 2}})
    cases.add(
        {.op = "linalg_pinv",
         .name = concat("complex ", sizes),
         .inputs = {{.sizes = sizes, .low = -1, .high = 1}},
         .run = [](In x) { return one(view_as_real(linalg::pinv(well_posed(complex_of(x[0]))))); },
         .reference =
             [](Arrays x) { return one(pairs_of(pseudo_inverse(doubled(well_posed(x[0]))))); },
         .dtypes = {kFloat32, kFloat64},
         .tolerance = 200});
  cases.add({.op = "linalg_pinv",
             .name = "complex, Hermitian",
             .inputs = {{.sizes = {3, 3, 2}, .low = -0.5, .high = 0.5}},
             .run =
                 [](In x) {
                   const Tensor A = well_posed(complex_of(x[0]));
                   return one(view_as_real(linalg::pinv(A + adjoint_of(A), {}, {}, true)));
                 },
             .reference =
                 [](Arrays x) {
                   return one(pairs_of(inverted(plus_transposed(doubled(well_posed(x[0]))))));
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 200});
  for (const Shape& sizes : {Shape{3, 3, 2}, Shape{4, 2, 2}, Shape{2, 2, 3, 2}})
    for (const char* driver : {"gels", "gelsd"}) {
      Shape right = sizes;
      right[right.size() - 2] = 2;
      cases.add({.op = "linalg_lstsq",
                 .name = concat("complex ", sizes, ", ", driver),
                 .inputs = {{.sizes = sizes, .low = -1, .high = 1}, {right}},
                 .run =
                     [=](In x) {
                       return one(view_as_real(std::get<0>(linalg::lstsq(
                           well_posed(complex_of(x[0])), complex_of(x[1]), {}, driver))));
                     },
                 .reference =
                     [](Arrays x) {
                       return one(pairs_of(
                           product(pseudo_inverse(doubled(well_posed(x[0]))), doubled(x[1]))));
                     },
                 .dtypes = {kFloat32, kFloat64},
                 .tolerance = 400,
                 .opt_out = kResiduals});
    }
}

Tensor complex_leaf(const Shape& sizes) {
  const Tensor parts = arange(sizes.numel(), {.dtype = kFloat64, .device = device()});
  return view_as_complex(stack({cos(parts), sin(3 * parts)}, -1)).reshape(sizes).requires_grad_();
}

}  // namespace

void complex_matrices_cases(Cases& cases) {
  singular_values(cases);
  eigenvalues(cases);
  orthogonal_factors(cases);
  inverses(cases);
  cases.error("linalg_svd", "phases", "linalg.svd: complex vectors are determined up to a factor",
              [] {
                sum(real(std::get<0>(linalg::svd(complex_leaf({3, 3}))))).backward();
              });
  cases.error("linalg_eigh", "phases", "linalg.eigh: complex vectors are determined up to a factor",
              [] {
                sum(real(std::get<1>(linalg::eigh(complex_leaf({3, 3}))))).backward();
              });
  cases.error("linalg_svd", "complex NaN", "linalg.svd: The algorithm failed to converge", [] {
    linalg::svd(to(full({2, 2}, std::numeric_limits<double>::quiet_NaN()), kComplex64));
  });
}

}  // namespace tensora::suite
