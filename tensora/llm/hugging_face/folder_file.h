#pragma once

#include <memory>
#include <string>

#include "tensora/llm/model_file.h"

namespace tensora::llm {

/// The contents of a ModelFile that is a Hugging Face folder: config.json with model.safetensors,
/// or with model.safetensors.index.json and the files that it names.
std::shared_ptr<const ModelFile::Contents> open_hugging_face(const std::string& folder);

}  // namespace tensora::llm
