"""Every field of a config.json, changed one at a time: Tensora computes what transformers computes, or refuses the
file. Skipped where transformers is not installed. `TENSORA_CLI` names the program, for the round trips."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import tensora  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "llm"))
import make_models  # noqa: E402

FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3", "phi3")
ACTIVATIONS = ["silu", "swish", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "quick_gelu", None]
LOCAL, GLOBAL = "sliding_attention", "full_attention"
# Values that are tried in every family, whether it has the field or not.
VALUES = {
    "hidden_act": ACTIVATIONS, "hidden_activation": ACTIVATIONS,
    "use_bidirectional_attention": [True, False, None], "is_causal": [False, True],
    "attn_logit_softcapping": [2.0, None], "final_logit_softcapping": [2.0, None],
    "query_pre_attn_scalar": [3, 24], "sliding_window": [5, 64, None], "use_sliding_window": [True, False],
    "max_window_layers": [0, 1, 2], "sliding_window_pattern": [1, 2, 3], "norm_topk_prob": [True, False],
    "attention_bias": [True, False], "mlp_bias": [True, False], "partial_rotary_factor": [0.5, 1.0],
    "rope_theta": [50.0, 1e6], "rope_local_base_freq": [20.0], "original_max_position_embeddings": [16, 64],
    "tie_word_embeddings": [True, False], "num_experts_per_tok": [1, 3], "mlp_only_layers": [[0], []],
    "decoder_sparse_step": [2], "num_key_value_heads": [1, 2, 4, None], "head_dim": [2, 4, 8, None],
    "rms_norm_eps": [0.1, None], "pretraining_tp": [2], "per_layer_config": [{"0": {"rms_norm_eps": 0.5}}],
    "attention_dropout": [0.5], "router_jitter_noise": [0.5], "pad_token_id": [3, None], "strange_field": [True],
    "max_position_embeddings": [8, 32, 1024], "num_hidden_layers": [1, 3], "attention_chunk_size": [4],
}
ROPE = [
    {"rope_type": "default", "rope_theta": 50.0}, {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 30.0},
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 8.0,
     "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "yarn", "factor": 4.0, "truncate": False},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7}, {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.5},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.4, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 2.0, "original_max_position_embeddings": 16},
    {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0],
     "original_max_position_embeddings": 16},
    {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0], "factor": 8.0,
     "original_max_position_embeddings": 64},
    {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0], "attention_factor": 2.0},
    {"rope_type": "proportional", "factor": 2.0}, {"mrope_section": [1, 1], "rope_type": "default"},
    {GLOBAL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 30.0}, LOCAL: {"rope_type": "default", "rope_theta": 9.0}},
    {GLOBAL: {"rope_type": "default"}, LOCAL: {"rope_type": "linear", "factor": 2.0}},
]


def mutations(config):
    """(name of the field, changed config)"""
    def changed(name, value):
        return name, {**config, name: value}

    layers = config["num_hidden_layers"]
    for name, value in config.items():
        if name in ("model_type", "vocab_size", "transformers_version", "architectures"):
            continue
        yield name, {key: other for key, other in config.items() if key != name}
        if isinstance(value, bool):
            yield changed(name, not value)
        elif isinstance(value, (int, float)):
            yield from (changed(name, other) for other in (value * 2, value / 2 if isinstance(value, float) else value // 2))
    for name, values in VALUES.items():
        yield from (changed(name, value) for value in values)
    for pattern in ([GLOBAL] * layers, [LOCAL] * layers, [(GLOBAL, LOCAL)[i % 2] for i in range(layers)],
                    [(LOCAL, GLOBAL)[i % 2] for i in range(layers)]):
        yield changed("layer_types", pattern)
    without = {key: value for key, value in config.items() if key != "layer_types"}
    for windows in ({"max_window_layers": 1}, {"max_window_layers": 0}, {"layer_types": [LOCAL] + [GLOBAL] * (layers - 1)},
                    {"sliding_window_pattern": 2}):
        yield "sliding_window", {**without, "use_sliding_window": True, "sliding_window": 5, **windows}
    plain = {key: value for key, value in config.items() if not key.startswith("rope_")}
    for rope in ROPE:
        yield "rope_scaling", {**config, "rope_scaling": rope}
        yield "rope_parameters", {**plain, "rope_parameters": rope}
        yield "rope", {**plain, "rope_scaling": rope, "rope_theta": 70.0, "max_position_embeddings": 32}


def expected_logits(folder, tokens):
    """None where transformers refuses the folder, "made up" where it lacks weights and invents them."""
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        if info["missing_keys"] or info.get("mismatched_keys"):
            return "made up"
        with torch.no_grad():
            logits = model.eval()(tokens, use_cache=False).logits[0]
        return logits if bool(torch.isfinite(logits).all()) else None
    except Exception:
        return None


def found_logits(path, tokens):
    model = tensora.llm.load(path, tokenizer=False, cache_dtype=tensora.float32, context=tokens.shape[1])
    return torch.tensor(model.logits(tokens[0].tolist()).tolist())


def is_close(found, expected):
    return found.shape == expected.shape and (found - expected).abs().max() < 1e-3 * expected.abs().max()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    transformers.utils.logging.set_verbosity_error()
    folder = tmp_path_factory.mktemp("models")
    configs = dict(make_models.configs(1))
    for name in configs:
        make_models.write(folder, name, configs[name])
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_is_used_or_refused(models, tmp_path, family):
    folder = tmp_path / family
    shutil.copytree(models / family, folder)
    config = json.loads((folder / "config.json").read_text())
    tokens = torch.randint(0, config["vocab_size"], (1, make_models.LENGTH))
    compared = refused = 0
    wrong = []
    for name, changed in mutations(config):
        (folder / "config.json").write_text(json.dumps(changed))
        expected = expected_logits(folder, tokens)
        if expected is None:
            continue
        what = f"{name}: {json.dumps(changed.get(name, '(absent)'))}"
        try:
            found = found_logits(folder, tokens)
        except RuntimeError as error:
            refused += 1
            if os.environ.get("TENSORA_SHOW_REFUSALS"):
                print(what, "refused:", error)
            continue
        compared += 1
        if isinstance(expected, str) or not is_close(found, expected):
            wrong.append(what)
    print(f"{family}: {compared} compared, {refused} refused")
    assert not wrong, "\n".join(wrong)
    assert compared > 80


@pytest.mark.skipif("TENSORA_CLI" not in os.environ, reason="TENSORA_CLI does not name the program tensora")
def test_folders_that_convert_writes_are_the_same_for_transformers(models, tmp_path):
    program = os.environ["TENSORA_CLI"]
    written = {"_name_or_path", "dtype", "transformers_version", "architectures", "initializer_range", "mlp_only_layers",
               "original_max_position_embeddings", "rope_parameters", "sliding_window_pattern", "max_window_layers",
               "_sliding_window_pattern", "sliding_window", "partial_rotary_factor"}
    for folder in sorted(path for path in models.iterdir() if path.is_dir()):
        gguf, again = tmp_path / f"{folder.name}.gguf", tmp_path / folder.name
        for source, target in ((folder, gguf), (gguf, again)):
            subprocess.run([program, "convert", source, target], check=True, capture_output=True)
        tokens = torch.randint(0, 40, (1, make_models.LENGTH))
        expected, found = expected_logits(folder, tokens), expected_logits(again, tokens)
        assert isinstance(found, torch.Tensor), folder.name
        assert is_close(found, expected), folder.name
        first, second = (transformers.AutoConfig.from_pretrained(path).to_dict() for path in (folder, again))
        for config in (first, second):  # null means the same as the quotient
            config["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        differ = {key: (first.get(key), second.get(key)) for key in first.keys() | second.keys()
                  if key not in written and first.get(key) != second.get(key)}
        assert not differ, f"{folder.name}: {differ}"
