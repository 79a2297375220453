"""Language models from Python: a small story-teller, and a Llama beside transformers' own."""
import os
import threading

import pytest

import tensora

STORIES = os.path.join(os.path.dirname(__file__), "../../../shared/data/stories260K.gguf")


@pytest.fixture(scope="module")
def stories():
    if not os.path.exists(STORIES):
        pytest.skip("needs ../shared/data/stories260K.gguf")
    return tensora.llm.load(STORIES)


def test_greedy_text_is_the_same_by_every_way(stories):
    answer = stories.generate("Once upon a time", max_tokens=24, temperature=0)
    assert answer.completion_tokens == 24 and answer.reason == "length"
    assert answer.startswith(", there was a little girl named Lily.")
    assert "".join(stories.stream("Once upon a time", max_tokens=24, temperature=0)) == answer
    tokens = stories.tokenize("Once upon a time")
    assert stories.generate(tokens, max_tokens=24, temperature=0) == answer
    assert stories.detokenize(tokens) == "Once upon a time"


def test_logits_choose_the_greedy_token(stories):
    tokens = stories.tokenize("Once upon a time")
    scores = stories.logits(tokens)
    assert tuple(scores.shape) == (len(tokens), stories.config["vocab_size"])
    first = stories.generate(tokens, max_tokens=1, temperature=0).tokens[0]
    assert scores[-1].argmax().item() == first


def test_options(stories):
    one = stories.generate("The dog", max_tokens=16, seed=7)
    assert stories.generate("The dog", max_tokens=16, seed=7) == one
    cut = stories.generate("Once upon a time", max_tokens=50, temperature=0, stop="Lily")
    assert cut.reason == "stop" and "Lily" not in cut
    with pytest.raises(TypeError, match="temprature"):
        stories.generate("x", temprature=1)
    with pytest.raises(TypeError, match="max_tokens"):
        stories.generate("x", max_tokens="many")
    with pytest.raises(RuntimeError, match="top_p"):
        stories.generate("x", top_p=2.0)
    with pytest.raises(FileNotFoundError):
        tensora.llm.load("no such file.gguf")


def test_logits_and_embeddings_use_the_dtype_of_the_cache():
    path = os.path.join(os.path.dirname(__file__), "../llm/goldens/models/llama")
    tokens = list(range(1, 33))
    exact, coarse = (tensora.llm.load(path, tokenizer=False, cache_dtype=dtype)
                     for dtype in (tensora.float32, tensora.bfloat16))
    assert (exact.logits(tokens) - coarse.logits(tokens)).abs().max().item() > 1e-3


def test_chat_and_embeddings(stories):
    answer = stories.chat([{"role": "user", "content": "Hello"}], max_tokens=4)
    assert answer.prompt_tokens > len(stories.tokenize("Hello"))  # the template's words
    vectors = stories.embed(["A cat sat.", "A cat sat.", "The big red truck"])
    assert tuple(vectors.shape) == (3, stories.config["hidden_size"])
    tensora.testing.assert_close(vectors.norm(dim=1), tensora.ones(3))
    assert (vectors[0] @ vectors[1]).item() > (vectors[0] @ vectors[2]).item()


def test_an_abandoned_stream_and_many_threads(stories):
    pieces = stories.stream("Once upon a time", max_tokens=200)
    next(pieces)
    pieces.close()
    answers = [None] * 4

    def ask(i):
        answers[i] = stories.generate("Once upon a time", max_tokens=12, temperature=0)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1 and answers[0]


def test_llama_of_transformers(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False)
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(0, 300, (1, 40))
    with torch.no_grad():
        expected = theirs(tokens).logits[0]
    ours = tensora.llm.load(tmp_path, tokenizer=False).logits(tokens[0].tolist())
    worst = (tensora.from_dlpack(expected.contiguous()) - ours).abs().max().item()
    assert worst < 2e-3, worst  # the cache of keys and values is float16
    agree = (ours.argmax(-1).numpy() == expected.argmax(-1).numpy()).mean()
    assert agree == 1


def test_stats_memory_and_close():
    if not os.path.exists(STORIES):
        pytest.skip("needs ../shared/data/stories260K.gguf")
    with tensora.llm.load(STORIES, max_sequences=2) as model:
        assert model.config["framework"] == "native"
        model.generate("Once", max_tokens=8, seed=-1)
        assert model.stats()["requests"] == 1 and model.stats()["generated_tokens"] == 8
        assert model.memory()["model_bytes"] > 0 and model.memory()["cache_bytes"] > 0
    with pytest.raises(RuntimeError, match="no model is loaded"):
        model.generate("Once")


def test_variables_of_the_chat_template():
    if not os.path.exists(STORIES):
        pytest.skip("needs ../shared/data/stories260K.gguf")
    model = tensora.llm.load(STORIES, chat_template="{% if thinking %}Once upon a {% endif %}{{ messages[0].content }}")
    told = {"max_tokens": 1, "temperature": 0}
    short = model.chat("time", chat_template_kwargs={"thinking": False}, **told)
    long = model.chat("time", chat_template_kwargs={"thinking": True}, **told)
    assert long.prompt_tokens > short.prompt_tokens


def test_a_framework_from_outside(stories):
    with pytest.raises(RuntimeError, match="there is no framework 'magic'"):
        tensora.llm.load(STORIES, framework="magic")
    try:
        plain = tensora.llm.load(STORIES, framework=["magic", "plain"])
    except RuntimeError as error:
        pytest.skip(f"tests/toy_framework is not built: {error}")
    assert plain.config["framework"] == "plain"
    assert len(plain.config["refusals"]) == 1 and "magic" in plain.config["refusals"][0]
    with pytest.raises(RuntimeError, match="magic"):
        tensora.llm.load(STORIES, framework=["magic", "plain"], require=True)
    by_name = {one["name"]: one for one in tensora.llm.frameworks()}
    assert by_name["native"]["usable"] and by_name["native"]["devices"]["cpu"] == ""
    assert by_name["plain"]["usable"] and by_name["plain"]["library"].endswith("libtensora_framework_plain.so")
    assert "version -1" in by_name["stale"]["reason"]
    expected = stories.generate("Tim and", max_tokens=20, temperature=0)
    assert plain.generate("Tim and", max_tokens=20, temperature=0) == expected
    tokens = stories.tokenize("Once upon a time")
    tensora.testing.assert_close(plain.logits(tokens), stories.logits(tokens), rtol=1e-2, atol=1e-2)
    tensora.testing.assert_close(plain.embed("a cat"), stories.embed("a cat"), rtol=1e-2, atol=1e-2)
