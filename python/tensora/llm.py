"""Language models: GGUF files and Hugging Face folders, run by Tensora's own engine or another framework.

    model = tensora.llm.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=50))
    for piece in model.stream("Once upon a time"):
        print(piece, end="", flush=True)
    print(model.chat([{"role": "user", "content": "Why is the sky blue?"}]))

Options of a request: max_tokens, stop, temperature, top_k, top_p, min_p, typical_p, repeat_penalty,
presence_penalty, frequency_penalty, grammar, json_schema, logit_bias, logprobs, seed, deadline,
chat_template_kwargs (variables of the chat template), ….
"""
import json
import os

from . import _C


class Completion(str):
    """The text of an answer, with what is known about it: tokens, reason, seed, …"""

    def __new__(cls, answer):
        text = super().__new__(cls, answer["text"])
        text.__dict__.update(answer)
        return text


class LanguageModel:
    """A model that continues texts; made by `load`. Any number of threads may use it."""

    def __init__(self, backend):
        self._backend = backend
        self.config = backend.description()

    def __repr__(self):
        c = self.config
        return (f"LanguageModel({c['architecture']}, {c['layers']} layers, hidden size {c['hidden_size']}, "
                f"{c['vocab_size']} tokens, {c['device']})")

    def generate(self, prompt, **options):
        """The text that follows `prompt`: a text, tokens or messages. The result is a str with attributes."""
        return Completion(self._backend.submit(prompt, _listed(options)).wait())

    def stream(self, prompt, **options):
        """The same, piece by piece as it comes."""
        generation = self._backend.submit(prompt, _listed(options))
        return _pieces(generation)

    def chat(self, messages, *, stream=False, **options):
        """The assistant's answer to a conversation: a list of {"role": …, "content": …}, or what a user says."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.stream(messages, **options) if stream else self.generate(messages, **options)

    def embed(self, texts, *, pooling="mean", normalize=True):
        """A vector for a text, or a matrix with a row for each of several texts."""
        one = isinstance(texts, str)
        rows = [self._backend.embed(self._backend.encode(text, True, False), pooling, normalize)
                for text in ([texts] if one else texts)]
        vectors = _C.tensor(rows)
        return vectors[0] if one else vectors

    def logits(self, tokens):
        """The model's scores for the next token after each of `tokens`: a matrix [tokens, vocabulary]."""
        return self._backend.logits([int(token) for token in tokens])

    def tokenize(self, text, *, add_special=True, parse_special=False):
        """The tokens of a text."""
        return self._backend.encode(text, add_special, parse_special)

    def detokenize(self, tokens, *, special=False):
        """The text of tokens."""
        return self._backend.decode([int(token) for token in tokens], special)

    def stats(self):
        """What the engine did and does: running and waiting requests, totals of tokens, busy seconds."""
        return self._backend.stats()

    def memory(self):
        """Bytes of the weights and of the KV cache."""
        return self._backend.memory()

    def close(self):
        """Ends all requests and returns all memory. The model cannot be used afterwards."""
        self._backend.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _pieces(generation):
    try:
        while (piece := generation.next()) is not None:
            if piece:
                yield piece
    finally:
        generation.cancel()


def _listed(options):
    """Options in the types that the engine takes: a list of stop texts, a list of biases, a seed or none."""
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    if isinstance(options.get("logit_bias"), dict):
        options["logit_bias"] = list(options["logit_bias"].items())
    if "chat_template_kwargs" in options:
        options["_template_variables"] = json.dumps(options.pop("chat_template_kwargs"))
    if options.get("seed") == -1:  # drawn anew, as on the command line
        del options["seed"]
    return options


def load(path, *, device="cpu", quantize="", tokenizer=True, framework="native", **options):
    """Loads a .gguf file or a folder with config.json and safetensors.

    `quantize`: what matrices become while loading (float16, q8_0, q4_k_m, int8, …). `tokenizer=False`: the model
    has none, and takes and gives tokens. `framework`: what runs the model, or a list of which the first that works
    is taken; "native" is Tensora itself, "auto" stands for all that are installed. `require=True`: the first of the
    list or an error. `level`: optimization level (eager, graph, …), `framework_options`: a dict of the framework's own
    settings. `config["refusals"]` tells why others were not taken. Further options: context, max_sequences, max_batch_tokens, max_waiting,
    cache_tokens, cache_dtype, draft_tokens, draft_model, chat_template.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "No such file or directory", path)
    frameworks = [framework] if isinstance(framework, str) else list(framework)
    options["quantize"] = quantize
    return LanguageModel(_C._load_backend(path, frameworks, _C.device(device), tokenizer, options))


def frameworks():
    """The frameworks that are installed: a list of dicts with name, version, library, usable, reason and devices
    (kind of device to the reason why it cannot be used, empty if it can). Each runs a tiny model to find out.
    """
    return _C._frameworks()
