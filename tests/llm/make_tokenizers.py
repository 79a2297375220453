"""Writes small tokenizers of every kind, and what the libraries that they come from make of texts.

usage: python3 tests/llm/make_tokenizers.py tests/llm/tokenizers

NAME.json, .model or .tiktoken is a tokenizer, NAME.cases.json a list of {text, ids, plain, decoded}: the ids with and
without special tokens around the text, and the text that the latter become. splits.json says how the named
pre-tokenizers cut texts. Needs the packages tokenizers, sentencepiece, tiktoken and regex.
"""

import base64
import io
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import regex
import sentencepiece
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = """The quick brown fox jumps over the lazy dog, and the dog does not care: it's asleep. We'll see what they'd do
in 1234 or 2024, they've been there; I'm sure you're not. Once upon a time there was a little girl who lived in a house.
She said hello to the sun, and the sun said hello to her. "What a wonderful day!" they said. int main() { return 0; }
Der schnelle braune Fuchs springt über den faulen Hund. Größe und Füße, naïve café, El niño comió piñas año tras año.
Привет, мир! Это был прекрасный день. Καλημέρα κόσμε. 東京都は日本の首都です。我想在北京工作。 안녕하세요 세계. שלום עולם مرحبا بالعالم
"""
PIECES = ["the", "The", " the", "ing", "hello", "world", "'s", "'ll", "'RE", "'ve", "don't", "1234", "3", " 33", "½", "²", "\n", "\n\n",
          "\r\n", "\t", " ", "  ", "   ", "\u00a0", "\u3000", ".", "!!", "...", "-", "—", "(", "$", "+", "~", "`", "über", "Größe", "e\u0301",
          "\u0301", "ñ", "é", "ß", "ſ", "ﬁ", "Å", "Привет", "мир", "κόσμε", "東京", "我想", "です。", "안녕", "각", "\u1100\u1161\u11a8", "שלום",
          "مرحبا", "हिन्दी", "ไทย", "🚀", "🦙🦙", "👩‍👩‍👧", "\u200b", "\ufeff", "<x>", "<y>", "<z>", "<w>", "<s>", "</s>", "[CLS]", "[MASK]",
          "▁", "▁▁", "_", "a_b", "camelCase", "HTTPServer", "x=y", "/*", "\x00", "\x1f", "\u2028"]


def random_text(rng, most=12):
    words = []
    for _ in range(rng.randint(0, most)):
        kind = rng.random()
        if kind < 0.6:
            words.append(rng.choice(PIECES))
        elif kind < 0.85:
            start = rng.randrange(len(CORPUS))
            words.append(CORPUS[start:start + rng.randint(1, 20)])
        else:
            while True:
                code = rng.choice([rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x20000)])
                # What is not assigned, or only recently, differs between the tables of libraries.
                if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co"):
                    break
            words.append(chr(code) * rng.choice([1, 1, 2]))
    return "".join(words)


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level(pre, normalizer=None, vocab_size=420, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<s>", "</s>"]))
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def with_added(tokenizer):
    tokenizer.add_tokens([AddedToken("<x>", lstrip=True), AddedToken("<y>", rstrip=True, normalized=False),
                          AddedToken("<z>", single_word=True), AddedToken("hello world", normalized=True)])
    tokenizer.add_special_tokens([AddedToken("<w>", lstrip=True, rstrip=True)])
    return tokenizer


def with_bos(tokenizer, eos=False):
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A" + (" </s>" if eos else ""),
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")])
    return tokenizer


def sentence_bpe(metaspace=None):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=metaspace is None))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=metaspace)
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=metaspace)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                               decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + ([] if metaspace else BYTES)
    words = pre_tokenizers.Metaspace()
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = words
    trained.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=560, special_tokens=special, show_progress=False,
                                                              limit_alphabet=90))
    model = json.loads(trained.to_str())["model"]
    whole = json.loads(tokenizer.to_str())
    whole["model"].update(vocab=model["vocab"], merges=model["merges"])
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def unigram(byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator([CORPUS] * 3, trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>",
                                                                        show_progress=False))
    if byte_fallback:
        whole = json.loads(tokenizer.to_str())
        whole["model"]["vocab"] += [[name, -20.0] for name in BYTES]
        whole["model"]["byte_fallback"] = True
        whole["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}
        tokenizer = Tokenizer.from_str(json.dumps(whole))
    return tokenizer


def word_piece(lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([CORPUS], trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def all_tokenizers():
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    unsplit = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return {
        "gpt2": with_added(byte_level(plain)),
        "gpt2_prefix": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "llama3": with_bos(byte_level(split(LLAMA3), ignore_merges=True)),
        "qwen2": with_added(byte_level(split(QWEN2), normalizer=normalizers.NFC())),
        "gpt4o": byte_level(split(GPT4O)),
        "cl100k": byte_level(split(CL100K)),
        "digits": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])),
        "punctuation": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"), plain])),
        # What follows ByteLevel sees its letters: ² is the digit of the byte B2.
        "bytes_digits": byte_level(pre_tokenizers.Sequence([plain, pre_tokenizers.Digits(individual_digits=True)])),
        "words": byte_level(split(r"\w+")),
        "whitespace": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), unsplit])),
        "accents": byte_level(plain, normalizer=normalizers.StripAccents()),
        "llama2": with_bos(sentence_bpe()),
        "metaspace_first": with_added(sentence_bpe("first")),
        "metaspace_always": sentence_bpe("always"),
        "unigram": with_bos(unigram(), eos=True),
        "unigram_bytes": unigram(byte_fallback=True),
        "bert": word_piece(True),
        "bert_cased": word_piece(False),
    }


def sentence_pieces(**options):
    """The bytes of a sentencepiece model."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines() * 3), model_writer=out, hard_vocab_limit=False, num_threads=1,
        minloglevel=2, **options)
    return out.getvalue()


def sentence_piece_models():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in [("ﬁ", "fi"), ("²", "2"), ("\u3000", " "), ("Å", "å"), ("e\u0301", "\u00e9"), ("ſ", "")]:
            rules.write(" ".join(f"{ord(c):x}" for c in source) + "\t" + " ".join(f"{ord(c):x}" for c in target) + "\n")
        rules.flush()
        return {
            "spm_bpe": sentence_pieces(model_type="bpe", vocab_size=500, byte_fallback=True, normalization_rule_name="identity",
                                       remove_extra_whitespaces=False),
            "spm_bpe_unknown": sentence_pieces(model_type="bpe", vocab_size=300, character_coverage=0.98,
                                               normalization_rule_name="identity", user_defined_symbols=["<x>", "hello"]),
            "spm_unigram": sentence_pieces(model_type="unigram", vocab_size=300, normalization_rule_tsv=rules.name),
            "spm_unigram_bytes": sentence_pieces(model_type="unigram", vocab_size=550, byte_fallback=True,
                                                 normalization_rule_name="identity", add_dummy_prefix=False),
        }


def write_cases(path, texts, encode, plain, decode):
    cases = []
    for text in texts:
        ids = plain(text)
        cases.append({"text": text, "ids": encode(text), "plain": ids, "decoded": decode(ids)})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    path.write_text(f"[\n{lines}\n]\n")


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WHITE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "qwen35": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + WHITE],
    "gpt-2": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                    r"| ?[\p{P}\p{S}]+[\r\n]*|" + WHITE],
    "tekken": [GPT4O.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")],
    "gpt-4o": [GPT4O],
    "gemma4": [r"[^\n]+|\n+"],
}


def pieces(patterns, text):
    """One pattern after another; what lies between the matches stays."""
    words = [text] if text else []
    for pattern in patterns:
        fresh = []
        for word in words:
            at = 0
            for match in regex.finditer(pattern, word):
                fresh += [word[at:match.start()], match.group()]
                at = match.end()
            fresh.append(word[at:])
        words = [word for word in fresh if word]
    return words


def main():
    out, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    seed = sys.argv[3] if len(sys.argv) > 3 else ""

    def texts(name):
        rng = random.Random(name + seed)
        return ["", "Hello world"] + [random_text(rng) for _ in range(count - 2)]

    for name, tokenizer in all_tokenizers().items():
        (out / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        write_cases(out / f"{name}.cases.json", texts(name), lambda text: tokenizer.encode(text).ids,
                    lambda text: tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.decode)
    for name, model in sentence_piece_models().items():
        (out / f"{name}.model").write_bytes(model)
        spm = sentencepiece.SentencePieceProcessor(model_proto=model)
        # Control tokens in a text are not its business; marks at the front are dropped when decoding.
        some = [text for text in texts(name) if "<s>" not in text and "</s>" not in text and not text.startswith("▁")]
        write_cases(out / f"{name}.cases.json", some, lambda text: spm.encode(text, add_bos=True), spm.encode, spm.decode)
    vocab = json.loads(all_tokenizers()["gpt2"].to_str())["model"]["vocab"]
    letters = {letter: bytes([byte]) for byte, letter in zip(
        [*range(33, 127), *range(161, 173), *range(174, 256), *(b for b in range(256) if not (33 <= b < 127 or 161 <= b < 173 or b >= 174))],
        [*map(chr, [*range(33, 127), *range(161, 173), *range(174, 256)]), *map(chr, range(256, 324))])}
    words = [b"".join(letters[c] for c in word) for word in vocab if word not in ("<s>", "</s>")]
    ranks = {word: rank for rank, word in enumerate(words)}
    (out / "tiktoken.tiktoken").write_text("".join(f"{base64.b64encode(word).decode()} {rank}\n" for word, rank in ranks.items()))
    encoding = tiktoken.Encoding("own", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})
    write_cases(out / "tiktoken.cases.json", texts("tiktoken"), encoding.encode, encoding.encode, encoding.decode)
    splits = {name: [pieces(patterns, text) for text in texts(name)] for name, patterns in SPLITS.items()}
    (out / "splits.json").write_text(json.dumps(splits, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
