"""Programs that use PyTorch's libraries; each gives numbers, which must be those of PyTorch.

    python programs.py NAME OUT.npz              with PyTorch
    python -m tensora.compat programs.py NAME OUT.npz

Parameters and inputs come from NumPy's generator, so that both see the same ones.
"""
import sys

import numpy

PROGRAMS = {}


def program(function):
    """Adds a program: a function that returns tensors, numbers or arrays by name."""
    PROGRAMS[function.__name__] = function
    return function


def filled(model, seed=0):
    """The model in eval mode, with parameters and buffers of NumPy's generator."""
    import torch
    rng = numpy.random.default_rng(seed)
    with torch.no_grad():
        for name, value in sorted(model.state_dict().items()):
            if value.dtype.is_floating_point and not name.endswith(("running_var", "inv_freq")):
                scale = 0.05 if value.dim() > 1 else 0.02
                numbers = rng.standard_normal(tuple(value.shape)) * scale
                if name.endswith("weight") and value.dim() == 1:
                    numbers = numbers + 1
                value.copy_(torch.tensor(numbers.astype("float32")))
    return model.eval()


def tokens(shape, count=64, seed=1):
    import torch
    return torch.tensor(numpy.random.default_rng(seed).integers(5, count, shape))


def numbers(shape, seed=2):
    import torch
    return torch.tensor(numpy.random.default_rng(seed).standard_normal(shape).astype("float32"))


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


# ---- timm and torchvision --------------------------------------------------------------------------------

def _timm(name, size=64, **options):
    def run():
        import timm
        model = filled(timm.create_model(name, pretrained=False, num_classes=10, **options))
        return {"logits": model(numbers((2, 3, size, size)))}
    run.__name__ = f"timm_{name}"
    return program(run)


for _name in ("resnet18", "resnet50", "efficientnet_b0", "mobilenetv3_small_100", "convnext_atto", "regnetx_002",
              "densenet121", "ghostnet_100"):
    _timm(_name)
_timm("vit_tiny_patch16_224", img_size=64)
_timm("deit_tiny_patch16_224", img_size=64)
_timm("swin_tiny_patch4_window7_224", 56, img_size=56)
_timm("mixer_s32_224", 224)


@program
def timm_features_by_fx():
    import timm
    model = filled(timm.create_model("resnet18", pretrained=False, features_only=True,
                                     feature_cls="fx", out_indices=(0, 1)))
    return {f"map{i}": x for i, x in enumerate(model(numbers((1, 3, 64, 64))))}


def _torchvision(name, size=64, **options):
    def run():
        import torchvision
        model = filled(getattr(torchvision.models, name)(weights=None, num_classes=10, **options))
        return {"logits": model(numbers((2, 3, size, size)))}
    run.__name__ = f"torchvision_{name}"
    return program(run)


for _name in ("resnet18", "vgg11", "mobilenet_v2", "squeezenet1_0", "shufflenet_v2_x0_5", "efficientnet_b0", "densenet121"):
    _torchvision(_name)


@program
def torchvision_feature_extraction():
    import torchvision
    from torchvision.models.feature_extraction import create_feature_extractor
    model = filled(torchvision.models.resnet18(weights=None))
    extractor = create_feature_extractor(model, {"layer1": "a", "layer4": "b"})
    return dict(extractor(numbers((1, 3, 64, 64))))


@program
def torchvision_transforms():
    from torchvision import transforms
    pipeline = transforms.Compose([transforms.Resize(24, antialias=True), transforms.CenterCrop(16),
                                   transforms.Normalize([0.5] * 3, [0.2] * 3)])
    return {"image": pipeline(numbers((3, 32, 40)).abs())}


# ---- metrics, einops, training loops -------------------------------------------------------------------------

@program
def torchmetrics_classification():
    import torch
    import torchmetrics
    scores, target = numbers((50, 5)).softmax(-1), tokens((50,), 10) - 5
    metrics = torchmetrics.MetricCollection({
        "accuracy": torchmetrics.Accuracy(task="multiclass", num_classes=5),
        "f1": torchmetrics.F1Score(task="multiclass", num_classes=5, average="macro"),
        "auroc": torchmetrics.AUROC(task="multiclass", num_classes=5),
        "confusion": torchmetrics.ConfusionMatrix(task="multiclass", num_classes=5)})
    metrics.update(scores, target)
    return dict(metrics.compute()) | {"total": torch.tensor(1.0)}


@program
def torchmetrics_regression():
    import torchmetrics
    a, b = numbers((40,)), numbers((40,), 3)
    kinds = (torchmetrics.MeanSquaredError, torchmetrics.R2Score, torchmetrics.PearsonCorrCoef, torchmetrics.SpearmanCorrCoef)
    return {kind.__name__: kind()(a, b) for kind in kinds}


@program
def torchmetrics_image_and_text():
    import torchmetrics
    a, b = numbers((2, 3, 32, 32)).sigmoid(), numbers((2, 3, 32, 32), 3).sigmoid()
    return {"psnr": torchmetrics.image.PeakSignalNoiseRatio(data_range=1.0)(a, b),
            "ssim": torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)(a, b),
            "perplexity": torchmetrics.text.Perplexity()(numbers((2, 5, 7)), tokens((2, 5), 7) % 7)}


@program
def einops_layers():
    from einops import einsum, pack, rearrange, reduce, repeat, unpack
    from einops.layers.torch import EinMix, Rearrange, Reduce
    import torch
    x = numbers((2, 3, 4, 6))
    packed, shapes = pack([x[:, :, 0], x[:, :, 1]], "b * w")
    layers = torch.nn.Sequential(Rearrange("b c h w -> b (h w) c"), Reduce("b n c -> b c", "max"))
    mix = filled(EinMix("b c h w -> b h w d", weight_shape="c d", bias_shape="d", c=3, d=5))
    return {"rearrange": rearrange(x, "b c (h p) w -> b (p c) h w", p=2), "reduce": reduce(x, "b c h w -> b c", "mean"),
            "repeat": repeat(x, "b c h w -> b c h w n", n=2), "einsum": einsum(x, x, "b c h w, b d h w -> b c d"),
            "layers": layers(x), "mix": mix(x), "packed": packed, "unpacked": unpack(packed, shapes, "b * w")[1]}


@program
def x_transformers_decoder():
    from x_transformers import Decoder, TransformerWrapper
    model = filled(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Decoder(
        dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True)))
    return {"logits": model(tokens((2, 9)))}


@program
def torchdiffeq_odeint():
    import torch
    from torchdiffeq import odeint, odeint_adjoint
    net = filled(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y) - y
    field, times = Field(), torch.linspace(0, 1, 5)
    adjoint = odeint_adjoint(field, numbers((3, 2)), times, method="rk4")
    adjoint.sum().backward()
    return {"dopri5": odeint(field, numbers((3, 2)), times), "adjoint": adjoint, "grad": net[0].weight.grad}


@program
def accelerate_loop():
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = filled(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
    data = torch.utils.data.TensorDataset(numbers((32, 4)), numbers((32, 1), 3))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2),
                                                   torch.utils.data.DataLoader(data, batch_size=8))
    losses = []
    for _ in range(3):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
    return {"losses": numpy.array(losses)}


@program
def lightning_fit():
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = filled(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
            self.losses = []

        def training_step(self, batch, index):
            loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(numbers((32, 4)), numbers((32, 1), 3))
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    net = Net()
    trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=8))
    return {"losses": numpy.array(net.losses)}


@program
def kornia_filters():
    import kornia
    x = numbers((1, 3, 24, 24)).sigmoid()
    return {"blur": kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), "sobel": kornia.filters.sobel(x),
            "gray": kornia.color.rgb_to_grayscale(x), "hsv": kornia.color.rgb_to_hsv(x)}


def main():
    name, path = sys.argv[1:]
    import torch
    torch.manual_seed(0)

    def plain(value):
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        return numpy.asarray(value)
    numpy.savez(path, **{key: plain(value) for key, value in PROGRAMS[name]().items()})


if __name__ == "__main__":
    main()
