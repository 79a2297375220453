#pragma once

// Internal header: matrices as the cases' references see them, in float64.

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {

/// Batches of matrices, … m n.
inline int64_t rows_of(const Array& x) { return x.sizes[x.sizes.size() - 2]; }
inline int64_t columns_of(const Array& x) { return x.sizes[x.sizes.size() - 1]; }
inline Shape batch_of(const Array& x, int inner = 2) {
  Shape batch = x.sizes;
  batch.resize(x.sizes.size() - inner);
  return batch;
}
inline Array matrices(const Shape& batch, int64_t m, int64_t n) {
  Shape sizes = batch;
  sizes.push_back(m);
  sizes.push_back(n);
  return Array(sizes);
}

inline Array transposed(const Array& x) {
  const int64_t m = rows_of(x), n = columns_of(x);
  Array out = matrices(batch_of(x), n, m);
  for (int64_t b = 0; b < batch_of(x).numel(); ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) out[(b * n + j) * m + i] = x[(b * m + i) * n + j];
  return out;
}

inline Array product(const Array& x, const Array& y) {
  const int64_t m = rows_of(x), k = columns_of(x), n = columns_of(y);
  Array out = matrices(batch_of(x), m, n);
  for (int64_t b = 0; b < batch_of(x).numel(); ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          out[(b * m + i) * n + j] += x[(b * m + i) * k + l] * y[(b * k + l) * n + j];
  return out;
}

/// x + factor * 1
inline Array plus_identity(Array x, double factor) {
  const int64_t n = columns_of(x);
  for (int64_t b = 0; b < batch_of(x).numel(); ++b)
    for (int64_t i = 0; i < n; ++i) x[(b * n + i) * n + i] += factor;
  return x;
}

/// x^-1 y by elimination with exchanges, and the determinants of x.
struct Solved {
  Array x;
  Array determinants;
};
inline Solved solved(Array a, Array b) {
  const int64_t n = columns_of(a), m = columns_of(b);
  Array dets(batch_of(a), 1);
  for (int64_t batch = 0; batch < dets.numel(); ++batch) {
    double* const p = a.values.data() + batch * n * n;
    double* const q = b.values.data() + batch * n * m;
    for (int64_t k = 0; k < n; ++k) {
      int64_t best = k;
      for (int64_t i = k; i < n; ++i)
        if (std::abs(p[i * n + k]) > std::abs(p[best * n + k])) best = i;
      if (best != k) dets[batch] = -dets[batch];
      for (int64_t j = 0; j < n; ++j) std::swap(p[k * n + j], p[best * n + j]);
      for (int64_t j = 0; j < m; ++j) std::swap(q[k * m + j], q[best * m + j]);
      const double pivot = p[k * n + k];
      dets[batch] *= pivot;
      for (int64_t j = 0; j < n; ++j) p[k * n + j] /= pivot;
      for (int64_t j = 0; j < m; ++j) q[k * m + j] /= pivot;
      for (int64_t i = 0; i < n; ++i) {
        const double factor = p[i * n + k];
        if (i == k) continue;
        for (int64_t j = 0; j < n; ++j) p[i * n + j] -= factor * p[k * n + j];
        for (int64_t j = 0; j < m; ++j) q[i * m + j] -= factor * q[k * m + j];
      }
    }
  }
  return {b, dets};
}

inline Array identities(const Array& like) { return plus_identity(Array(like.sizes), 1); }
inline Array inverted(const Array& a) { return solved(a, identities(a)).x; }

/// Eigenvalues, ascending, and eigenvectors, as columns, by Jacobi's rotations.
struct Eigen {
  Array values;
  Array vectors;
};
inline Eigen eigen(Array a) {
  const int64_t n = columns_of(a);
  Shape sizes = batch_of(a);
  sizes.push_back(n);
  Eigen result{Array(sizes), identities(a)};
  for (int64_t batch = 0; batch < batch_of(a).numel(); ++batch) {
    double* const p = a.values.data() + batch * n * n;
    double* const v = result.vectors.values.data() + batch * n * n;
    for (int64_t sweep = 0; sweep < 40; ++sweep)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = i + 1; j < n; ++j) {
          const double angle = 0.5 * std::atan2(2 * p[i * n + j], p[j * n + j] - p[i * n + i]);
          const double c = std::cos(angle), s = std::sin(angle);
          const auto rotate = [&](double& x, double& y) {
            const double kept = x;
            x = c * kept - s * y;
            y = s * kept + c * y;
          };
          for (int64_t k = 0; k < n; ++k) rotate(p[i * n + k], p[j * n + k]);
          for (int64_t k = 0; k < n; ++k) rotate(p[k * n + i], p[k * n + j]);
          for (int64_t k = 0; k < n; ++k) rotate(v[k * n + i], v[k * n + j]);
        }
    for (int64_t i = 0; i < n; ++i)  // in order
      for (int64_t j = i + 1; j < n; ++j)
        if (p[j * n + j] < p[i * n + i]) {
          std::swap(p[i * n + i], p[j * n + j]);
          for (int64_t k = 0; k < n; ++k) std::swap(v[k * n + i], v[k * n + j]);
        }
    for (int64_t i = 0; i < n; ++i) result.values[batch * n + i] = p[i * n + i];
  }
  return result;
}

/// V diag(f(L)) V^T
inline Array function_of(const Eigen& eigen, const std::function<double(double)>& f) {
  Array scaled = eigen.vectors;
  const int64_t n = columns_of(scaled);
  for (int64_t at = 0; at < scaled.numel(); ++at)
    scaled[at] *= f(eigen.values[at / (n * n) * n + at % n]);
  return product(scaled, transposed(eigen.vectors));
}

}  // namespace tensora::suite
