"""Programs that use transformers and the libraries above it."""
import numpy

from . import filled, numbers, program, tokens

# ---- transformers: 24 architectures of small configurations --------------------------------------------

SMALL = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=64)
GQA = dict(SMALL, num_key_value_heads=2)
NO_TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
DECODERS = {
    "gpt2": ("GPT2", dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "llama": ("Llama", GQA), "mistral": ("Mistral", GQA), "qwen2": ("Qwen2", GQA),
    "qwen3": ("Qwen3", dict(GQA, head_dim=8)), "phi": ("Phi", SMALL),
    "gemma": ("Gemma", dict(GQA, head_dim=8)), "gemma2": ("Gemma2", dict(GQA, head_dim=8)),
    "gpt_neox": ("GPTNeoX", SMALL), "opt": ("OPT", dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, ffn_dim=48,
                                                        num_attention_heads=4, word_embed_proj_dim=32,
                                                        max_position_embeddings=64)),
    "bloom": ("Bloom", dict(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)),
    "falcon": ("Falcon", dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)),
    "olmo": ("Olmo", GQA), "stablelm": ("StableLm", GQA), "mixtral": ("Mixtral", dict(GQA, num_local_experts=4)),
    "gptj": ("GPTJ", dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=8)),
    "mamba": ("Mamba", dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=8)),
}
ENCODERS = {
    "bert": ("Bert", SMALL), "roberta": ("Roberta", dict(SMALL, max_position_embeddings=80)),
    "distilbert": ("DistilBert", dict(vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=48)),
    "electra": ("Electra", dict(SMALL, embedding_size=32)), "albert": ("Albert", dict(SMALL, embedding_size=16)),
    "deberta_v2": ("DebertaV2", SMALL),
}


def _decoder(name, kind, options):
    def run():
        import torch
        import transformers
        config = getattr(transformers, f"{kind}Config")(**NO_TOKENS, **options)
        model = filled(transformers.AutoModelForCausalLM.from_config(config))
        ids = tokens((2, 9))
        result = {"logits": model(ids).logits, "loss": model(ids, labels=ids).loss}
        mask = torch.ones_like(ids)
        result["greedy"] = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
        if kind != "Mamba":
            result["beams"] = model.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, num_beams=3)
        return result
    run.__name__ = f"transformers_{name}"
    return program(run)


def _encoder(name, kind, options):
    def run():
        import transformers
        model = filled(transformers.AutoModel.from_config(getattr(transformers, f"{kind}Config")(**options)))
        return {"hidden": model(tokens((2, 9))).last_hidden_state}
    run.__name__ = f"transformers_{name}"
    return program(run)


for _name, (_kind, _options) in DECODERS.items():
    _decoder(_name, _kind, _options)
for _name, (_kind, _options) in ENCODERS.items():
    _encoder(_name, _kind, _options)


@program
def transformers_t5():
    import transformers
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                   decoder_start_token_id=0)
    model = filled(transformers.T5ForConditionalGeneration(config))
    ids = tokens((2, 9))
    return {"loss": model(input_ids=ids, labels=ids).loss,
            "greedy": model.generate(input_ids=ids, max_new_tokens=6, do_sample=False)}


@program
def transformers_bart():
    import transformers
    config = transformers.BartConfig(vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48,
                                     decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4,
                                     max_position_embeddings=64, **NO_TOKENS)
    model = filled(transformers.BartForConditionalGeneration(config))
    ids = tokens((2, 9))
    return {"loss": model(input_ids=ids, labels=ids).loss,
            "beams": model.generate(input_ids=ids, max_new_tokens=6, num_beams=2, do_sample=False)}


@program
def transformers_vit():
    import transformers
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                                    image_size=32, patch_size=8)
    return {"hidden": filled(transformers.ViTModel(config))(numbers((2, 3, 32, 32))).last_hidden_state}


@program
def transformers_clip():
    import transformers
    text = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                max_position_embeddings=64, **NO_TOKENS)
    vision = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32,
                  patch_size=8)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    model = filled(transformers.CLIPModel(config))
    ids = tokens((2, 9))
    ids[:, -1] = 2
    return {"logits": model(input_ids=ids, pixel_values=numbers((2, 3, 32, 32))).logits_per_image}


@program
def transformers_whisper():
    import transformers
    config = transformers.WhisperConfig(vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2,
                                        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                                        decoder_ffn_dim=48, max_source_positions=20, max_target_positions=32, num_mel_bins=8,
                                        decoder_start_token_id=1, **NO_TOKENS)
    model = filled(transformers.WhisperForConditionalGeneration(config))
    return {"logits": model(input_features=numbers((2, 8, 40)), decoder_input_ids=tokens((2, 5))).logits}


@program
def transformers_save_and_from_pretrained():
    import tempfile
    import transformers
    config = transformers.LlamaConfig(**GQA, **NO_TOKENS)
    model = filled(transformers.LlamaForCausalLM(config))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = transformers.AutoModelForCausalLM.from_pretrained(folder)
        ids = tokens((2, 9))
        return {"before": model(ids).logits, "after": again(ids).logits}


@program
def transformers_trainer():
    import tempfile
    import torch
    import transformers
    model = filled(transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        **NO_TOKENS)))
    rows = [{"input_ids": row, "labels": row} for row in tokens((40, 16))]
    losses = []

    class Keep(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if "loss" in (logs or {}):
                losses.append(logs["loss"])

    class Ordered(transformers.Trainer):
        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, max_steps=50, per_device_train_batch_size=4, logging_steps=1,
                                                   learning_rate=1e-3, report_to=[], save_strategy="no",
                                                   use_cpu=True, disable_tqdm=True)
        Ordered(model=model, args=arguments, train_dataset=rows, callbacks=[Keep()]).train()
    return {"losses": numpy.array(losses)}




def _gpt2():
    import transformers
    return filled(transformers.GPT2LMHeadModel(transformers.GPT2Config(**DECODERS["gpt2"][1], **NO_TOKENS)))


@program
def peft_lora():
    import peft
    model = peft.get_peft_model(_gpt2(), peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0,
                                                         target_modules=["c_attn"], fan_in_fan_out=True))
    filled(model)
    ids = tokens((2, 9))
    loss = model(ids, labels=ids).loss
    loss.backward()
    return {"loss": loss, "merged": model.merge_and_unload()(ids).logits}


@program
def peft_kinds():
    import peft
    ids, results = tokens((2, 9)), {}
    for name, config in {"ia3": peft.IA3Config(task_type="CAUSAL_LM", target_modules=["c_attn"], feedforward_modules=[]),
                         "dora": peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], use_dora=True,
                                                 fan_in_fan_out=True),
                         "prompt": peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
                         "prefix": peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)}.items():
        results[name] = filled(peft.get_peft_model(_gpt2(), config))(ids).logits
    return results


@program
def sentence_transformers_scores_and_losses():
    import torch
    from sentence_transformers import util
    from sentence_transformers.sentence_transformer.modules import Pooling
    a, b = numbers((4, 16)), numbers((5, 16), 3)
    pooled = Pooling(16, "mean")({"token_embeddings": numbers((2, 5, 16)), "attention_mask": torch.ones(2, 5)})
    return {"cosine": util.cos_sim(a, b), "dot": util.dot_score(a, b), "pooled": pooled["sentence_embedding"],
            "hits": numpy.array([hit["corpus_id"] for row in util.semantic_search(a, b, top_k=3) for hit in row])}


@program
def open_clip_model():
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
    model = filled(CLIP(embed_dim=16, vision_cfg=CLIPVisionCfg(layers=2, width=32, head_width=8, patch_size=8, image_size=32),
                        text_cfg=CLIPTextCfg(context_length=8, vocab_size=64, width=32, heads=4, layers=2)))
    image, text, scale = model(numbers((2, 3, 32, 32)), tokens((2, 8)))
    return {"image": image, "text": text, "scale": scale}


@program
def transformer_lens_hooks():
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    model = filled(HookedTransformer(HookedTransformerConfig(
        n_layers=2, d_model=32, n_ctx=16, d_head=8, d_vocab=64, act_fn="gelu", seed=0, device="cpu")))
    logits, cache = model.run_with_cache(tokens((2, 9)))
    return {"logits": logits, "pattern": cache["pattern", 0]}
