#include "tensora/llm/embed.h"

#include <algorithm>
#include <cmath>

#include "tensora/ops.h"

namespace tensora::llm {

std::vector<float> embed(SequenceSession& session, std::span<const int32_t> tokens,
                         const EmbedOptions& options) {
  const auto size = static_cast<int64_t>(tokens.size());
  check(size > 0, "embed: the text has no tokens");
  check(size <= session.options().context, "embed: the text has ", size,
        " tokens, but the context has room for ", session.options().context);
  session.clear();
  std::vector<double> sum;
  for (int64_t at = 0; at < size;) {
    const int64_t count = std::min(session.options().max_batch_tokens, size - at);
    const SequenceSession::Part part{
        0, tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const Tensor states = session.hidden({&part, 1}, SequenceSession::Rows::all).cpu().contiguous();
    const auto width = static_cast<size_t>(states.size(1));
    sum.resize(width);
    for (int64_t i = 0; i < count; ++i) {
      const bool counts = options.pooling == Pooling::mean ||
                          (options.pooling == Pooling::last ? at + i == size - 1 : at + i == 0);
      const float* row = states.data_ptr<float>() + static_cast<size_t>(i) * width;
      if (counts)
        for (size_t j = 0; j < width; ++j) sum[j] += row[j];
    }
    at += count;
  }
  double scale = options.pooling == Pooling::mean ? 1 / static_cast<double>(size) : 1;
  if (options.normalize) {
    double squares = 0;
    for (const double value : sum) squares += value * value;
    scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  }
  std::vector<float> out(sum.size());
  for (size_t j = 0; j < sum.size(); ++j) out[j] = static_cast<float>(sum[j] * scale);
  return out;
}

}  // namespace tensora::llm
