"""Language models: GGUF files and Hugging Face folders, run by Tensora's own engine.

    model = tensora.llm.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=50))
    for piece in model.stream("Once upon a time"):
        print(piece, end="", flush=True)
    print(model.chat([{"role": "user", "content": "Why is the sky blue?"}]))

Options of a request: max_tokens, stop, temperature, top_k, top_p, min_p, typical_p, repeat_penalty,
presence_penalty, frequency_penalty, grammar, json_schema, logit_bias, logprobs, seed, deadline, ….
"""
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

    def __init__(self, engine):
        self._engine = engine
        self.config = engine.description()

    def __repr__(self):
        c = self.config
        return (f"LanguageModel({c['architecture']}, {c['layers']} layers, hidden size {c['hidden_size']}, "
                f"{c['vocab_size']} tokens, {c['device']})")

    def generate(self, prompt, **options):
        """The text that follows `prompt`: a text, tokens or messages. The result is a str with attributes."""
        return Completion(self._engine.submit(prompt, _listed(options)).wait())

    def stream(self, prompt, **options):
        """The same, piece by piece as it comes."""
        generation = self._engine.submit(prompt, _listed(options))
        return _pieces(generation)

    def chat(self, messages, *, stream=False, **options):
        """The assistant's answer to a conversation: a list of {"role": …, "content": …}, or what a user says."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.stream(messages, **options) if stream else self.generate(messages, **options)

    def embed(self, texts, *, pooling="mean", normalize=True):
        """A vector for a text, or a matrix with a row for each of several texts."""
        one = isinstance(texts, str)
        rows = [self._engine.embed(self._engine.encode(text, True, False), pooling, normalize)
                for text in ([texts] if one else texts)]
        vectors = _C.tensor(rows)
        return vectors[0] if one else vectors

    def logits(self, tokens):
        """The model's scores for the next token after each of `tokens`: a matrix [tokens, vocabulary]."""
        return self._engine.logits([int(token) for token in tokens])

    def tokenize(self, text, *, add_special=True, parse_special=False):
        """The tokens of a text."""
        return self._engine.encode(text, add_special, parse_special)

    def detokenize(self, tokens, *, special=False):
        """The text of tokens."""
        return self._engine.decode([int(token) for token in tokens], special)


def _pieces(generation):
    try:
        while (piece := generation.next()) is not None:
            if piece:
                yield piece
    finally:
        generation.cancel()


def _listed(options):
    """One stop text may stand for a list of them, a dict of biases for its items."""
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    if isinstance(options.get("logit_bias"), dict):
        options["logit_bias"] = list(options["logit_bias"].items())
    return options


def load(path, *, device="cpu", quantize="", tokenizer=True, **options):
    """Loads a .gguf file or a folder with config.json and safetensors.

    `quantize`: what matrices become while loading (float16, q8_0, q4_k_m, int8, …). `tokenizer=False`: the model
    has none, and takes and gives tokens. Options of the engine: context, max_sequences, max_batch_tokens,
    cache_tokens, cache_dtype, draft_tokens.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "No such file or directory", path)
    return LanguageModel(_C._load_engine(path, _C.device(device), quantize, tokenizer, options))
