#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensora/llm/sequence_session.h"

namespace tensora::llm {

class ModelFile;

/// How the hidden states of a text's tokens become one vector. `rank`: they do not; the model says
/// how relevant a document is to a query.
enum class Pooling : uint8_t { mean, last, first, rank };
/// "mean", "last", "first" (or llama.cpp's "cls"), "rank". Throws for another name.
Pooling pooling_named(std::string_view name);
/// The pooling that a model was trained with: GGUF's `pooling_type`, or 1_Pooling/config.json in a
/// folder of sentence-transformers. Empty: the model does not say.
std::optional<Pooling> pooling_of(const ModelFile& file);

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;  // to length 1
};

/// The embedding of a text: the model's final hidden states, pooled over its tokens. The session
/// must have room for the tokens; what it holds is replaced. Throws for Pooling::rank.
std::vector<float> embed(SequenceSession& session, std::span<const int32_t> tokens,
                         const EmbedOptions& options = {});

}  // namespace tensora::llm
