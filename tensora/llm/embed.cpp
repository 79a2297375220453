#include "tensora/llm/embed.h"

#include <algorithm>
#include <cmath>

#include "tensora/llm/sequence_runner.h"
#include "tensora/ops.h"

namespace tensora::llm {

std::vector<float> embed(const std::shared_ptr<const Model>& model, std::span<const int32_t> tokens,
                         const EmbedOptions& options) {
  const auto size = static_cast<int64_t>(tokens.size());
  check(size > 0, "embed: the text has no tokens");
  check(options.batch > 0, "embed: expected a batch of at least one token, got ", options.batch);
  const int64_t context = std::min(options.context, model->positions());
  check(size <= context, "embed: the text has ", size, " tokens, but the context has room for ",
        context);
  SequenceRunner runner(model,
                        {.context = size, .max_batch_tokens = std::min(size, options.batch)});
  const auto width = static_cast<size_t>(model->config().hidden_size);
  std::vector<double> sum(width);
  for (int64_t at = 0; at < size;) {
    const int64_t count = std::min(runner.options().max_batch_tokens, size - at);
    const SequenceRunner::Part part{
        0, tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const Tensor states = runner.hidden({&part, 1}, SequenceRunner::Rows::all).cpu().contiguous();
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
  std::vector<float> out(width);
  for (size_t j = 0; j < width; ++j) out[j] = static_cast<float>(sum[j] * scale);
  return out;
}

}  // namespace tensora::llm
