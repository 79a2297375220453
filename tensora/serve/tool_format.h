#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::serve {

/// How a model writes calls of tools: a section of calls, each of which is a row of parts.
struct ToolFormat {
  struct Part {
    enum class Kind : uint8_t {
      text,       // exactly this
      space,      // any white space, or none
      name,       // of the tool
      arguments,  // a JSON object
      tags,       // the same as <parameter=name>, newline, value, newline, </parameter>, …
    };
    Kind kind = Kind::text;
    std::string text = {};
  };
  using Parts = std::vector<Part>;

  std::string name = {};     // "hermes", for logs and tests
  Parts section_begin = {};  // stands once before the calls; may be empty
  Parts call = {};
  std::string separator = {};  // between two calls
  Parts section_end = {};
  bool has_several = true;  // calls in one answer
  /// A control token that may stand before the call, and behind text; for bare formats.
  std::string lead = {};
  /// Calls are recognized at the beginning of an answer only: no marker stands before them.
  bool is_bare = false;
  /// The template does not write tools: the messages must describe them.
  bool needs_prompt = false;
  bool has_short_ids = false;  // nine letters and digits, which the template checks

  /// All parts of an answer with one call.
  Parts parts_of_first() const;
  /// The text that tells a call from other text: the first part. Not for bare formats.
  const std::string& marker() const;
};

/// How a model thinks aloud.
struct ReasoningFormat {
  std::string begin = {}, end = {};  // empty: it does not
  bool is_known() const { return !end.empty(); }
};

/// Found from the source of a chat template.
ToolFormat tool_format_of(std::string_view source);
ReasoningFormat reasoning_format_of(std::string_view source);

}  // namespace tensora::serve
