"""Programs that use small libraries of attention, recurrence and mixing layers."""
import numpy

from . import filled, named, numbers, program, tokens


def _image(make, size=32):
    return {"logits": filled(make())(numbers((2, 3, size, size)))}


def _vit(name, kind=None, size=32, **options):
    def make():
        import importlib
        module = importlib.import_module(f"vit_pytorch.{name}")
        return getattr(module, kind or "ViT")(**{**dict(num_classes=10), **options})
    named(f"vit_pytorch_{name}", _image, make, size)


_SMALL = dict(image_size=32, patch_size=8, dim=32, depth=2, heads=4, mlp_dim=48)
_vit("vit", **_SMALL)
_vit("simple_vit", "SimpleViT", **_SMALL)
_vit("deepvit", "DeepViT", **_SMALL)
_vit("cait", "CaiT", **{**_SMALL, "cls_depth": 1})
_vit("parallel_vit", **_SMALL)
_vit("vit_for_small_dataset", **_SMALL)
_vit("cct", "CCT", img_size=32, embedding_dim=32, n_conv_layers=1, kernel_size=7, stride=2, padding=3,
     pooling_kernel_size=3, pooling_stride=2, pooling_padding=1, num_layers=2, num_heads=4, mlp_ratio=2.0)
_vit("cross_vit", "CrossViT", image_size=32, depth=1, sm_dim=32, sm_patch_size=4, sm_enc_depth=1, sm_enc_heads=4,
     sm_enc_mlp_dim=32, lg_dim=48, lg_patch_size=8, lg_enc_depth=1, lg_enc_heads=4, lg_enc_mlp_dim=48)
_vit("levit", "LeViT", image_size=32, stages=2, dim=(32, 48), depth=1, heads=(2, 3), mlp_mult=2)
_vit("cvt", "CvT", s1_emb_dim=16, s2_emb_dim=32, s3_emb_dim=48, s2_heads=2, s2_depth=1, s3_heads=3, s3_depth=1)
_vit("twins_svt", "TwinsSVT", s1_emb_dim=16, s1_patch_size=4, s1_local_patch_size=2, s1_global_k=2, s2_emb_dim=16,
     s2_patch_size=2, s2_local_patch_size=2, s2_global_k=2, s3_emb_dim=32, s3_patch_size=2, s3_local_patch_size=2,
     s3_global_k=2, s3_depth=1, s4_emb_dim=32, s4_patch_size=1, s4_local_patch_size=2, s4_global_k=2)
_vit("nest", "NesT", image_size=32, patch_size=4, dim=32, heads=2, num_hierarchies=2, block_repeats=(1, 1))
_vit("mobile_vit", "MobileViT", 128, image_size=(128, 128), dims=[16, 24, 32], channels=[8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48])


@program
def x_transformers_decoder():
    from x_transformers import Decoder, TransformerWrapper
    model = filled(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Decoder(
        dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True)))
    return {"logits": model(tokens((2, 9)))}


@program
def x_transformers_options():
    from x_transformers import Encoder, TransformerWrapper
    results = {}
    for name, options in {"alibi": dict(alibi_pos_bias=True), "glu": dict(ff_glu=True, ff_swish=True),
                          "rms": dict(use_rmsnorm=True), "talking": dict(attn_pre_talking_heads=True),
                          "t5": dict(rel_pos_bias=True), "sandwich": dict(sandwich_coef=1),
                          "memory": dict(attn_num_mem_kv=4), "gate": dict(gate_residual=True)}.items():
        model = filled(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Encoder(
            dim=32, depth=2, heads=4, attn_dim_head=8, **options)))
        results[name] = model(tokens((2, 9)))
    return results


@program
def x_transformers_trained_and_sampled():
    import torch
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper
    model = AutoregressiveWrapper(filled(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Decoder(
        dim=32, depth=2, heads=4, attn_dim_head=8)))).train()
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for _ in range(4):
        loss = model(tokens((2, 17)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    return {"losses": numpy.array(losses), "sampled": model.generate(tokens((1, 4)), 8, temperature=0.0)}


@program
def linear_attention_transformer():
    from linear_attention_transformer import LinearAttentionTransformerLM
    model = filled(LinearAttentionTransformerLM(num_tokens=64, dim=32, heads=4, depth=1, max_seq_len=32, causal=True))
    return {"logits": model(tokens((2, 32)))}


@program
def local_attention():
    from local_attention import LocalAttention, LocalTransformer
    q, k, v = (numbers((2, 4, 32, 8), seed) for seed in (1, 2, 3))
    model = filled(LocalTransformer(num_tokens=64, dim=32, depth=1, heads=4, dim_head=8, local_attn_window_size=8,
                                    max_seq_len=32))
    return {"attention": filled(LocalAttention(dim=8, window_size=8, causal=True))(q, k, v), "logits": model(tokens((2, 32)))}


@program
def performer():
    from performer_pytorch import PerformerLM
    model = filled(PerformerLM(num_tokens=64, max_seq_len=32, dim=32, depth=1, heads=4, dim_head=8, causal=False))
    return {"logits": model(tokens((2, 32)))}


@program
def nystrom_attention():
    from nystrom_attention import Nystromformer
    return {"hidden": filled(Nystromformer(dim=32, dim_head=8, heads=4, depth=2, num_landmarks=8))(numbers((2, 32, 32)))}


@program
def perceiver():
    from perceiver_pytorch import Perceiver, PerceiverIO
    model = filled(Perceiver(input_channels=3, input_axis=2, num_freq_bands=4, max_freq=10.0, depth=2, num_latents=8,
                             latent_dim=32, cross_dim_head=8, latent_dim_head=8, latent_heads=4, num_classes=10))
    io = filled(PerceiverIO(dim=16, queries_dim=16, logits_dim=10, depth=1, num_latents=8, latent_dim=32))
    return {"logits": model(numbers((2, 16, 16, 3))), "io": io(numbers((2, 20, 16)), queries=numbers((6, 16), 3))}


@program
def reformer():
    from reformer_pytorch import ReformerLM
    model = filled(ReformerLM(num_tokens=64, dim=32, depth=1, heads=2, max_seq_len=32, bucket_size=8, n_hashes=2,
                              causal=True, use_full_attn=True))
    return {"logits": model(tokens((2, 32)))}


@program
def g_mlp_and_mixer():
    from g_mlp_pytorch import gMLPVision
    from mlp_mixer_pytorch import MLPMixer
    x = numbers((2, 3, 32, 32))
    return {"gmlp": filled(gMLPVision(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2))(x),
            "mixer": filled(MLPMixer(image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10))(x)}


@program
def conformer():
    from conformer import Conformer
    return {"hidden": filled(Conformer(dim=32, depth=2, dim_head=8, heads=4))(numbers((2, 20, 32)))}


@program
def rotary_embedding_torch():
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
    rotary, x = RotaryEmbedding(dim=8), numbers((2, 4, 16, 8))
    pixel = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16)
    return {"rotated": rotary.rotate_queries_or_keys(x), "xpos": RotaryEmbedding(
        dim=8, use_xpos=True).rotate_queries_and_keys(x, x)[1],
        "axial": apply_rotary_emb(pixel.get_axial_freqs(4, 4), numbers((1, 4, 4, 16)))}


@program
def vector_quantize():
    import torch
    from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, VectorQuantize
    torch.manual_seed(0)
    x = numbers((2, 12, 16))
    quantized, indices, loss = VectorQuantize(dim=16, codebook_size=32, decay=0.8)(x)
    residual, codes, losses = ResidualVQ(dim=16, num_quantizers=3, codebook_size=16)(x)
    fsq, fsq_codes = filled(FSQ(levels=[8, 5, 5], dim=16))(x)
    lfq = filled(LFQ(codebook_size=64, dim=16))(x)
    return {"quantized": quantized, "indices": indices, "loss": loss, "residual": residual, "codes": codes,
            "losses": losses, "fsq": fsq, "fsq_codes": fsq_codes, "lfq": lfq[0], "lfq_codes": lfq[1]}


@program
def product_key_memory():
    from product_key_memory import PKM
    return {"memory": filled(PKM(dim=32, heads=2, num_keys=16, topk=4, dim_head=8))(numbers((2, 10, 32)))}


@program
def axial_positional_embedding():
    from axial_positional_embedding import AxialPositionalEmbedding
    return {"embedded": filled(AxialPositionalEmbedding(dim=32, axial_shape=(4, 8)))(numbers((1, 32, 32)))}


@program
def positional_encodings():
    from positional_encodings.torch_encodings import PositionalEncoding1D, PositionalEncoding2D, Summer
    return {"line": PositionalEncoding1D(10)(numbers((2, 6, 10))),
            "plane": Summer(PositionalEncoding2D(8))(numbers((1, 4, 6, 8)))}


@program
def tab_transformer():
    from tab_transformer_pytorch import FTTransformer, TabTransformer
    import torch
    options = dict(categories=(10, 5, 6), num_continuous=4, dim=16, dim_out=1, depth=2, heads=4)
    categories, continuous = tokens((3, 3), 10) % 5, numbers((3, 4))
    return {"tab": filled(TabTransformer(mlp_act=torch.nn.ReLU(), **options))(categories, continuous),
            "ft": filled(FTTransformer(**options))(categories, continuous)}


@program
def i_transformer():
    from iTransformer import iTransformer
    model = filled(iTransformer(num_variates=7, lookback_len=24, dim=32, depth=2, heads=4, dim_head=8, pred_length=(6, 12)))
    return {f"ahead{n}": x for n, x in model(numbers((2, 24, 7))).items()}


@program
def mambapy_trained():
    import torch
    from mambapy.mamba import Mamba, MambaConfig
    model = filled(Mamba(MambaConfig(d_model=16, n_layers=2))).train()
    loss = model(numbers((2, 12, 16))).square().mean()
    loss.backward()
    return {"loss": loss, "grad": model.layers[0].mixer.in_proj.weight.grad, "total": torch.tensor(1.0)}


@program
def hyper_connections():
    import torch
    from hyper_connections import HyperConnections
    wrap, expand, reduce = HyperConnections.get_init_and_expand_reduce_stream_functions(4)
    layer = filled(wrap(dim=16, branch=torch.nn.Linear(16, 16)))
    return {"out": reduce(layer(expand(numbers((2, 5, 16)))))}


@program
def routing_transformer():
    from routing_transformer import RoutingTransformerLM
    model = filled(RoutingTransformerLM(num_tokens=64, dim=32, heads=4, depth=1, max_seq_len=32, window_size=8, causal=True))
    return {"logits": model(tokens((1, 32)))[0]}


@program
def colt5_router():
    from colt5_attention import CoordinateDescentRouter
    router = filled(CoordinateDescentRouter(dim=16, num_routing_tokens=1))
    routed = router(numbers((2, 12, 16)), num_tokens=4)
    return {"indices": routed.indices, "scores": routed.scores}


@program
def x_clip():
    from x_clip import CLIP
    model = filled(CLIP(dim_text=32, dim_image=32, dim_latent=16, num_text_tokens=64, text_enc_depth=1, text_seq_len=8,
                        text_heads=4, visual_enc_depth=1, visual_image_size=32, visual_patch_size=8, visual_heads=4))
    loss = model.train()(tokens((3, 8)), numbers((3, 3, 32, 32)), return_loss=True)
    return {"loss": loss}


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
def einx_functions():
    import einx
    x = numbers((2, 3, 4))
    return {"sum": einx.sum("a [b] c", x), "softmax": einx.softmax("a b [c]", x), "dot": einx.dot("a b c, a b d -> a c d", x, x),
            "flat": einx.id("a b c -> (a b) c", x)}
