#include "python/src/bindings.h"
#include "tensora/llm/backends/backend_manager.h"
#include "tensora/llm/embed.h"

#include <nanobind/stl/map.h>

// Language models: a framework's backend, its requests and what Python sees of their answers.

namespace tensora::python {
namespace {

namespace nb = nanobind;
using namespace llm;

/// Bytes of tokens need not be UTF-8; what is not becomes the replacement character.
nb::object text_of(const std::string& bytes) {
  return nb::steal(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

/// Fields of an options struct by the names that Python gives.
class Fields {
 public:
  explicit Fields(const nb::dict& given) { given_.update(given); }
  template <class T>
  void take(const char* name, T& field) {
    if (!given_.contains(name)) return;
    if (!nb::try_cast<T>(given_[name], field))
      raise_type_error(name, ": a value of another type is expected, got ",
                       Py_TYPE(nb::object(given_[name]).ptr())->tp_name);
    PyDict_DelItemString(given_.ptr(), name);
  }
  void finish() const {
    if (given_.size() == 0) return;
    raise_type_error("unexpected keyword argument ",
                     nb::cast<std::string>(nb::repr(given_.keys()[0])));
  }

 private:
  nb::dict given_;
};

void take_sampling(Fields& fields, SamplingOptions& sampling) {
  fields.take("temperature", sampling.temperature);
  fields.take("top_k", sampling.top_k);
  fields.take("top_p", sampling.top_p);
  fields.take("min_p", sampling.min_p);
  fields.take("typical_p", sampling.typical_p);
  fields.take("top_n_sigma", sampling.top_n_sigma);
  fields.take("repeat_penalty", sampling.repeat_penalty);
  fields.take("repeat_last_n", sampling.repeat_last_n);
  fields.take("presence_penalty", sampling.presence_penalty);
  fields.take("frequency_penalty", sampling.frequency_penalty);
  fields.take("dry_multiplier", sampling.dry_multiplier);
  fields.take("xtc_probability", sampling.xtc_probability);
  fields.take("mirostat", sampling.mirostat);
  fields.take("grammar", sampling.grammar);
  fields.take("json_schema", sampling.json_schema);
  fields.take("logit_bias", sampling.logit_bias);
  fields.take("logprobs", sampling.logprobs);
  fields.take("seed", sampling.seed);
}

/// A prompt is a text, a list of tokens or a list of messages with role and content.
Request request_of(const nb::object& prompt, const nb::dict& given) {
  Request request;
  if (nb::isinstance<nb::str>(prompt)) {
    request.prompt = nb::cast<std::string>(prompt);
  } else if (nb::len(prompt) > 0 && nb::isinstance<nb::dict>(prompt[0])) {
    for (const nb::handle message : prompt) {
      if (!nb::isinstance<nb::dict>(message))
        raise_type_error("a message is a dict with role and content, got ",
                         Py_TYPE(message.ptr())->tp_name);
      Message& turn = request.messages.emplace_back();
      Fields fields(nb::cast<nb::dict>(message));
      fields.take("role", turn.role);
      fields.take("content", turn.content);
      fields.take("name", turn.name);
      fields.finish();
    }
  } else if (!nb::try_cast<std::vector<int32_t>>(prompt, request.tokens)) {
    raise_type_error("a prompt is a str, a list of tokens or a list of messages, got ",
                     Py_TYPE(prompt.ptr())->tp_name);
  }
  Fields fields(given);
  take_sampling(fields, request.sampling);
  fields.take("max_tokens", request.max_tokens);
  fields.take("stop", request.stop);
  fields.take("ignore_end", request.ignore_end);
  fields.take("parse_special", request.parse_special);
  fields.take("deadline", request.deadline);
  fields.take("_template_variables", request.chat.variables);
  fields.finish();
  return request;
}

nb::dict dict_of(const Completion& completion) {
  nb::dict result;
  result["text"] = text_of(completion.text);
  result["tokens"] = completion.tokens;
  std::vector<float> logprobs;
  for (const Sampled& sampled : completion.logprobs) logprobs.push_back(sampled.logprob);
  result["logprobs"] = logprobs;
  result["reason"] = std::string(name(completion.reason));
  result["seed"] = completion.seed;
  result["prompt_tokens"] = completion.usage.prompt_tokens;
  result["completion_tokens"] = completion.usage.completion_tokens;
  result["tokens_per_second"] = completion.predicted_per_second();
  return result;
}

/// Waits without the GIL, a moment at a time, so that Ctrl-C is heard.
void wait_until_ready(Generation& generation) {
  for (;;) {
    {
      const ReleaseGil free;
      if (generation.is_ready(0.1)) return;
    }
    if (PyErr_CheckSignals() != 0) {
      generation.cancel();
      throw PythonError{};
    }
  }
}

std::shared_ptr<FrameworkBackend> load_backend(const std::string& path,
                                               const std::vector<std::string>& frameworks,
                                               Device device, bool has_tokenizer,
                                               const nb::dict& given) {
  BackendOptions options;
  EngineOptions& engine = options.engine;
  Fields fields(given);
  fields.take("quantize", options.quantize);
  fields.take("context", engine.context);
  fields.take("max_sequences", engine.max_sequences);
  fields.take("max_batch_tokens", engine.max_batch_tokens);
  fields.take("max_waiting", engine.max_waiting);
  fields.take("cache_tokens", engine.cache_tokens);
  fields.take("cache_dtype", engine.cache_dtype);
  fields.take("draft_tokens", engine.speculation.draft_tokens);
  fields.take("draft_model", options.draft_model);
  fields.take("chat_template", options.chat_template);
  fields.take("level", options.level);
  fields.take("framework_options", options.settings);
  bool require = false;
  fields.take("require", require);
  fields.finish();
  const ReleaseGil free;
  return BackendManager().choose({.frameworks = frameworks,
                                  .device = device,
                                  .fallback = !require,
                                  .prepare = [&](FrameworkBackend& backend) {
                                    backend.load_model(path, options);
                                    if (has_tokenizer) backend.load_tokenizer(path);
                                  }});
}

Tensor logits_of(FrameworkBackend& backend, const std::vector<int32_t>& tokens) {
  const ReleaseGil free;
  const auto count = static_cast<int64_t>(tokens.size());
  check(count > 0, "logits: expected at least one token, got none");
  const auto session = backend.open_sequences({.context = count, .max_batch_tokens = count});
  const SequenceSession::Part part{.sequence = 0, .tokens = tokens};
  return session->forward(std::span(&part, 1), SequenceSession::Rows::all).clone();
}

std::vector<float> embedding_of(FrameworkBackend& backend, const std::vector<int32_t>& tokens,
                                const std::string& pooling, bool normalize) {
  const ReleaseGil free;
  check(pooling == "mean" || pooling == "last" || pooling == "first",
        "embed: pooling is mean, last or first, got ", pooling);
  check(!tokens.empty(), "embed: the text has no tokens");
  const auto session = backend.open_sequences({.context = static_cast<int64_t>(tokens.size())});
  return embed(*session, tokens,
               {.pooling = pooling == "mean"   ? Pooling::mean
                           : pooling == "last" ? Pooling::last
                                               : Pooling::first,
                .normalize = normalize});
}

nb::dict description_of(const FrameworkBackend& backend) {
  const ModelInfo info = backend.model_info();
  const ModelConfig& config = info.config;
  nb::dict result;
  result["architecture"] = config.architecture;
  result["name"] = config.name;
  result["layers"] = config.layers;
  result["hidden_size"] = config.hidden_size;
  result["heads"] = config.heads;
  result["kv_heads"] = config.kv_heads;
  result["vocab_size"] = config.vocab_size;
  result["context_length"] = config.context_length;
  result["bytes"] = info.summary.bytes;
  result["precision"] = info.summary.precision;
  const ExecutionReport report = backend.report();
  result["framework"] = backend.name();
  result["framework_version"] = report.version;
  result["level"] = report.level;
  result["notes"] = report.notes;
  result["refusals"] = backend.refusals();
  result["device"] = nb::steal(from_device(backend.device()));
  return result;
}

nb::list frameworks() {
  nb::list result;
  BackendManager manager;
  std::vector<std::string> names = manager.names();
  for (const std::string& name : installed_frameworks()) names.push_back(name);
  for (const std::string& name : names) {
    FrameworkStatus status;
    {
      const ReleaseGil free;
      status = manager.inspect(name);
    }
    nb::dict one, devices;
    for (const auto& [kind, reason] : status.devices) devices[kind.c_str()] = reason;
    one["name"] = status.name;
    one["version"] = status.version;
    one["library"] = status.library;
    one["usable"] = status.is_usable();
    one["reason"] = status.reason;
    one["devices"] = devices;
    result.append(one);
  }
  return result;
}

nb::dict stats_of(const FrameworkBackend& backend) {
  const EngineStats stats = backend.stats();
  nb::dict result;
  result["running"] = stats.running;
  result["waiting"] = stats.waiting;
  result["requests"] = stats.requests;
  result["steps"] = stats.steps;
  result["prompt_tokens"] = stats.prompt_tokens;
  result["cached_tokens"] = stats.cached_tokens;
  result["generated_tokens"] = stats.generated_tokens;
  result["drafted_tokens"] = stats.drafted_tokens;
  result["accepted_tokens"] = stats.accepted_tokens;
  result["preemptions"] = stats.preemptions;
  result["busy_seconds"] = stats.busy_seconds;
  return result;
}

nb::dict memory_of(const FrameworkBackend& backend) {
  const BackendMemory memory = backend.memory_usage();
  nb::dict result;
  result["model_bytes"] = memory.model_bytes;
  result["cache_bytes"] = memory.cache_bytes;
  return result;
}

TokenizerPtr tokenizer_of(const FrameworkBackend& backend) {
  TokenizerPtr tokenizer = backend.tokenizer();
  check(tokenizer != nullptr, "llm: this model has no tokenizer; give tokens");
  return tokenizer;
}

}  // namespace

void bind_llm(nb::module_& module) {
  nb::class_<Generation>(module, "_Generation")
      .def("next",
           [](Generation& generation) -> nb::object {
             wait_until_ready(generation);
             const std::optional<Piece> piece = generation.next();
             return piece ? text_of(piece->text) : nb::none();
           })
      .def("wait",
           [](Generation& generation) {
             while (!generation.is_done()) {
               wait_until_ready(generation);
               if (!generation.next()) break;
             }
             return dict_of(generation.wait());
           })
      .def("cancel", &Generation::cancel)
      .def_prop_ro("done", &Generation::is_done);
  nb::class_<FrameworkBackend>(module, "_Backend")
      .def("submit",
           [](FrameworkBackend& backend, const nb::object& prompt, const nb::dict& options) {
             return backend.submit(request_of(prompt, options));
           })
      .def("tokens_of",
           [](FrameworkBackend& backend, const nb::object& prompt) {
             return backend.tokens_of(request_of(prompt, nb::dict()));
           })
      .def("encode",
           [](const FrameworkBackend& backend, const std::string& text, bool add_special,
              bool parse_special) {
             return tokenizer_of(backend)->encode(
                 text, {.add_special = add_special, .parse_special = parse_special});
           })
      .def("decode",
           [](const FrameworkBackend& backend, const std::vector<int32_t>& tokens, bool special) {
             return text_of(tokenizer_of(backend)->decode(tokens, {.special = special}));
           })
      .def("logits", &logits_of)
      .def("embed", &embedding_of)
      .def("description", &description_of)
      .def("stats", &stats_of)
      .def("memory", &memory_of)
      .def("cleanup", [](FrameworkBackend& backend) {
        const ReleaseGil free;
        backend.cleanup();
      });
  module.def("_load_backend", &load_backend);
  module.def("_frameworks", &frameworks);
}

}  // namespace tensora::python
