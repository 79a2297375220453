#include "tensora/nn/rotary_embedding.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace {

constexpr double kPi = 3.14159265358979323846;

/// base^(-2 i / size) in float32, as the models were trained with.
std::vector<float> plain_frequencies(int64_t size, double base) {
  std::vector<float> result;
  for (int64_t i = 0; i < size; i += 2)
    result.push_back(
        1 / std::pow(static_cast<float>(base), static_cast<float>(i) / static_cast<float>(size)));
  return result;
}

int64_t original_length(const RotaryOptions& options) {
  const int64_t given = options.scaling.original_max_positions;
  return given > 0 ? given : options.max_positions;
}

/// The base grows with the length, once that exceeds what the model was trained on.
double dynamic_base(int64_t size, const RotaryOptions& options, int64_t length) {
  const double trained = static_cast<double>(original_length(options));
  const double now = std::max(static_cast<double>(length), trained);
  const double factor = options.scaling.factor;
  const double power = static_cast<double>(size) / static_cast<double>(size - 2);
  return options.base * std::pow(factor * now / trained - (factor - 1), power);
}

/// Long wavelengths are stretched, short ones are not, and those between are blended.
void scale_as_llama3(std::vector<float>& frequencies, const RotaryOptions& options) {
  const RopeScaling& s = options.scaling;
  const double original = static_cast<double>(original_length(options));
  for (float& frequency : frequencies) {
    const double wavelength = 2 * kPi / static_cast<double>(frequency);
    if (wavelength < original / s.high_freq_factor) continue;
    const double stretched = static_cast<double>(frequency) / s.factor;
    if (wavelength > original / s.low_freq_factor) {
      frequency = static_cast<float>(stretched);
      continue;
    }
    const double share =
        (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    frequency =
        static_cast<float>((1 - share) * stretched + share * static_cast<double>(frequency));
  }
}

/// A ramp from frequencies that turn often within the original length, which are kept, to those
/// that turn rarely, which are divided by the factor.
double scale_as_yarn(std::vector<float>& frequencies, int64_t size, const RotaryOptions& options) {
  const RopeScaling& s = options.scaling;
  const double original = static_cast<double>(original_length(options));
  const auto pair_that_turns = [&](double times) {
    return static_cast<double>(size) * std::log(original / (times * 2 * kPi)) /
           (2 * std::log(options.base));
  };
  double low = pair_that_turns(s.beta_fast), high = pair_that_turns(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(size - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double frequency = static_cast<double>(frequencies[i]);
    frequencies[i] = static_cast<float>(frequency / s.factor * ramp + frequency * (1 - ramp));
  }
  if (s.attention_factor) return *s.attention_factor;
  const auto strength = [&](double mscale) {
    return s.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(s.factor) + 1;
  };
  if (s.mscale && s.mscale_all_dim) return strength(*s.mscale) / strength(*s.mscale_all_dim);
  return strength(1);
}

double scale_as_longrope(std::vector<float>& frequencies, const RotaryOptions& options,
                         int64_t length) {
  const RopeScaling& s = options.scaling;
  const int64_t original = original_length(options);
  const std::vector<double>& divisors = length > original ? s.long_factor : s.short_factor;
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = static_cast<float>(static_cast<double>(frequencies[i]) / divisors[i]);
  if (s.attention_factor) return *s.attention_factor;
  const double factor = s.original_max_positions > 0 ? static_cast<double>(options.max_positions) /
                                                           static_cast<double>(original)
                                                     : s.factor;
  if (factor <= 1) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
}

void check_options(int64_t size, const RotaryOptions& options) {
  const RopeScaling& s = options.scaling;
  check(size > 0 && size % 2 == 0, "RotaryEmbedding: the size must be positive and even, got ",
        size);
  check(options.base > 0 && options.max_positions > 0,
        "RotaryEmbedding: base and max_positions must be positive, got ", options.base, " and ",
        options.max_positions);
  constexpr std::string_view types[] = {"default", "linear",   "dynamic",
                                        "yarn",    "longrope", "llama3"};
  check(std::find(std::begin(types), std::end(types), s.type) != std::end(types),
        "RotaryEmbedding: expected the scaling default, linear, dynamic, yarn, longrope or llama3, "
        "got '",
        s.type, "'");
  check(s.type == "default" || s.type == "longrope" || s.factor >= 1,
        "RotaryEmbedding: the scaling's factor must be at least 1, got ", s.factor);
  check(s.type != "dynamic" || size > 2,
        "RotaryEmbedding: dynamic scaling needs a size above 2, got ", size);
  check(s.type != "llama3" || s.high_freq_factor > s.low_freq_factor,
        "RotaryEmbedding: high_freq_factor must exceed low_freq_factor, got ", s.high_freq_factor,
        " and ", s.low_freq_factor);
  const auto half = static_cast<size_t>(size / 2);
  check(s.type != "longrope" || (s.short_factor.size() == half && s.long_factor.size() == half),
        "RotaryEmbedding: longrope needs ", half, " numbers in short_factor and long_factor, got ",
        s.short_factor.size(), " and ", s.long_factor.size());
}

/// Up to which length the frequencies of `length` hold; the tables reach at most that far.
bool depends_on_length(const RotaryOptions& options) {
  return options.scaling.type == "dynamic" || options.scaling.type == "longrope";
}

}  // namespace

/// The tables made last. One pair per object is enough: a model lives on one device.
struct RotaryEmbedding::Tables {
  std::mutex mutex;
  Tensor cos, sin;
  std::vector<float> frequencies;
};

RotaryEmbedding::RotaryEmbedding(int64_t size, RotaryOptions options)
    : size_(size), options_(std::move(options)), tables_(std::make_shared<Tables>()) {
  check_options(size_, options_);
}

std::pair<std::vector<float>, double> RotaryEmbedding::frequencies(int64_t length) const {
  const std::string& type = options_.scaling.type;
  const double base = type == "dynamic" ? dynamic_base(size_, options_, length) : options_.base;
  std::vector<float> result = plain_frequencies(size_, base);
  double strength = 1;
  if (type == "linear")
    for (float& frequency : result)
      frequency = static_cast<float>(static_cast<double>(frequency) / options_.scaling.factor);
  if (type == "llama3") scale_as_llama3(result, options_);
  if (type == "yarn") strength = scale_as_yarn(result, size_, options_);
  if (type == "longrope") strength = scale_as_longrope(result, options_, length);
  return {std::move(result), strength};
}

std::tuple<Tensor, Tensor> RotaryEmbedding::tables(int64_t length, Device device) const {
  check(length >= 0, "RotaryEmbedding: the length must not be negative, got ", length);
  const std::lock_guard lock(tables_->mutex);
  Tensor &cos = tables_->cos, &sin = tables_->sin;
  const bool fits = cos.defined() && cos.device() == device && cos.size(0) >= length;
  if (fits && !depends_on_length(options_)) return {cos, sin};
  auto [per_step, strength] = frequencies(length);
  if (fits && per_step == tables_->frequencies) return {cos, sin};
  // In steps of two, so that a text that grows token by token seldom needs new ones.
  int64_t rows = std::min<int64_t>(options_.max_positions, 256);
  while (rows < length) rows *= 2;
  const no_grad silent;
  const autocast plain(AutocastOptions{.enabled = false});
  const Tensor positions = arange(rows, TensorOptions{.dtype = kFloat32, .device = device});
  const Tensor steps = tensor(per_step, {.dtype = kFloat32}).to(device);
  const Tensor angles = positions.unsqueeze(1) * steps;
  cos = tensora::cos(angles) * strength;
  sin = tensora::sin(angles) * strength;
  tables_->frequencies = std::move(per_step);
  return {cos, sin};
}

std::tuple<Tensor, Tensor> RotaryEmbedding::operator()(const Tensor& query, const Tensor& key,
                                                       int64_t start) const {
  check(query.dim() >= 2, "RotaryEmbedding: expected a query of shape … T D, got ", query.sizes());
  check(start >= 0, "RotaryEmbedding: start must not be negative, got ", start);
  const auto [cos, sin] = tables(start + query.size(-2), query.device());
  return apply_rotary_from(query, key, cos, sin, start, options_.interleaved);
}

std::tuple<Tensor, Tensor> RotaryEmbedding::operator()(const Tensor& query, const Tensor& key,
                                                       const Tensor& positions,
                                                       int64_t length) const {
  const auto [cos, sin] = tables(length, query.device());
  return apply_rotary_at(query, key, cos, sin, positions, options_.interleaved);
}

}  // namespace tensora::nn
