#!/usr/bin/env python3
"""Writes goldens/layers.txt: PyTorch's printed form, state, results and gradients of layers.

tests/nn/golden_test.cpp makes the layer of each name and compares. Everything is float64; inputs and
parameters have few digits, so that both sides start from equal numbers.
"""
import math
import pathlib

import torch
from torch import nn

cases = []


def wave(*shape, seed=0, scale=1.0):
    count = math.prod(shape)
    values = [round(scale * math.sin(1.7 * i + seed) + 0.25 * math.cos(0.37 * i), 3) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def target(tensor):
    """An input that gets no gradient."""
    tensor = tensor.clone()
    tensor.is_target = True
    return tensor


def add(name, module, *inputs, train=False):
    cases.append((name, module, inputs, train))


def fill(module):
    with torch.no_grad():
        for k, (name, tensor) in enumerate(module.state_dict().items()):
            if not tensor.is_floating_point() or name == "_random_samples":
                continue
            shift = 1.5 if name.endswith("running_var") else 0
            tensor.copy_(wave(*tensor.shape, seed=10 + k, scale=0.5) + shift)


def numbers(tensor, form):
    flat = tensor.detach().reshape(-1).tolist()
    return " ".join((form % v) if tensor.is_floating_point() else str(int(v)) for v in flat)


def line(kind, name, tensor, form="%.9g"):
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    dtype = "i" if not tensor.is_floating_point() else "c" if hasattr(tensor, "is_target") else "f"
    return f"{kind} {name} {dtype} {shape} {numbers(tensor, form)}"


def run(name, module, inputs, train):
    module = module.double().train(train)
    fill(module)
    yield f"case {name} {'train' if train else 'eval'}"
    text = repr(module).replace("\n", "\\n")
    yield f"repr {text}"
    for key, tensor in module.state_dict().items():
        yield line("state", key, tensor, "%.4g")
    leaves = [x.clone().requires_grad_() if x.is_floating_point() and not hasattr(x, "is_target") else x
              for x in inputs]
    for i, x in enumerate(leaves):
        yield line("input", str(i), x, "%.4g")
    out = module(*[x.clone() for x in leaves])
    yield line("output", "0", out)
    if out.requires_grad:
        weights = 1 + 0.1 * (torch.arange(out.numel(), dtype=torch.float64) % 7).reshape(out.shape)
        (out * weights).sum().backward()
        for i, x in enumerate(leaves):
            if x.is_floating_point() and x.grad is not None:
                yield line("grad", str(i), x.grad)
        for key, parameter in module.named_parameters():
            if parameter.grad is not None:
                yield line("grad", key, parameter.grad)
    if train:
        for key, tensor in module.named_buffers():
            yield line("after", key, tensor)
    yield "end"


def linear():
    x = wave(3, 4)
    add("linear", nn.Linear(4, 3), x)
    add("linear_no_bias", nn.Linear(4, 2, bias=False), wave(2, 3, 4))
    add("bilinear", nn.Bilinear(3, 4, 2), wave(2, 3), wave(2, 4, seed=1))
    add("identity", nn.Identity(), x)
    add("flatten", nn.Flatten(), wave(2, 3, 2))
    add("flatten_from_0", nn.Flatten(start_dim=0, end_dim=1), wave(2, 3, 2))
    add("unflatten", nn.Unflatten(1, (2, 3)), wave(2, 6))


def convolutions():
    add("conv1d", nn.Conv1d(2, 4, 3, stride=2, padding=1), wave(2, 2, 7))
    add("conv1d_same_circular", nn.Conv1d(2, 2, 4, padding="same", padding_mode="circular"), wave(1, 2, 6))
    add("conv1d_unbatched", nn.Conv1d(2, 3, 2), wave(2, 5))
    add("conv2d", nn.Conv2d(2, 4, 3), wave(1, 2, 5, 4))
    add("conv2d_all", nn.Conv2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False),
        wave(2, 4, 5, 5))
    add("conv2d_same", nn.Conv2d(2, 2, (3, 2), padding="same", dilation=2), wave(1, 2, 5, 5))
    add("conv2d_valid", nn.Conv2d(2, 2, 3, padding="valid"), wave(1, 2, 4, 4))
    add("conv2d_reflect", nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode="reflect"), wave(1, 2, 4, 5))
    add("conv2d_replicate", nn.Conv2d(1, 2, 3, padding=1, padding_mode="replicate"), wave(1, 1, 3, 4))
    add("conv3d", nn.Conv3d(1, 2, 2, padding=1), wave(1, 1, 2, 3, 3))
    add("conv3d_circular", nn.Conv3d(1, 1, 3, padding=(0, 1, 2), padding_mode="circular"), wave(1, 1, 3, 3, 3))
    add("conv_transpose1d", nn.ConvTranspose1d(2, 3, 3, stride=2), wave(1, 2, 4))
    add("conv_transpose2d", nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        wave(1, 2, 3, 3))
    add("conv_transpose2d_dilated", nn.ConvTranspose2d(2, 1, (2, 3), dilation=2, bias=False), wave(1, 2, 3, 2))
    add("conv_transpose3d", nn.ConvTranspose3d(1, 2, 2), wave(1, 1, 2, 2, 3))


def pools():
    for d, shape in ((1, (1, 2, 7)), (2, (1, 2, 5, 6)), (3, (1, 1, 4, 4, 5))):
        x = wave(*shape)
        add(f"max_pool{d}d", getattr(nn, f"MaxPool{d}d")(2), x)
        add(f"avg_pool{d}d", getattr(nn, f"AvgPool{d}d")(2), x)
        add(f"lp_pool{d}d", getattr(nn, f"LPPool{d}d")(2.0, 2), x)
        add(f"adaptive_max_pool{d}d", getattr(nn, f"AdaptiveMaxPool{d}d")(2), x)
        add(f"adaptive_avg_pool{d}d", getattr(nn, f"AdaptiveAvgPool{d}d")(3), x)
    x = wave(1, 2, 6, 5)
    add("max_pool2d_all", nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 2), ceil_mode=True), x)
    add("avg_pool2d_all", nn.AvgPool2d((3, 2), stride=(2, 1), padding=1, ceil_mode=True, count_include_pad=False), x)
    add("avg_pool2d_divisor", nn.AvgPool2d(2, divisor_override=3), x)
    add("lp_pool2d_stride", nn.LPPool2d(3.0, 2, stride=1, ceil_mode=True), x.abs())
    add("adaptive_avg_pool2d_none", nn.AdaptiveAvgPool2d((2, None)), x)
    add("adaptive_avg_pool2d_1", nn.AdaptiveAvgPool2d((1, 1)), x)
    values, indices = nn.MaxPool1d(2, return_indices=True)(wave(1, 2, 6))
    samples = torch.tensor([[[0.3, 0.9], [0.1, 0.6]]])
    add("fractional_max_pool2d", nn.FractionalMaxPool2d((2, 3), output_size=(3, 2), _random_samples=samples), x)
    samples = torch.tensor([[[0.7, 0.2, 0.4]]])
    add("fractional_max_pool3d", nn.FractionalMaxPool3d(2, output_ratio=0.6, _random_samples=samples),
        wave(1, 1, 5, 6, 4))
    add("max_unpool1d", nn.MaxUnpool1d(2), values, indices)
    values, indices = nn.MaxPool2d(2, return_indices=True)(wave(1, 2, 4, 6))
    add("max_unpool2d", nn.MaxUnpool2d(2, stride=2), values, indices)


def paddings():
    x1, x2, x3 = wave(1, 2, 4), wave(1, 1, 3, 4), wave(1, 1, 3, 3, 4)
    for d, x in ((1, x1), (2, x2), (3, x3)):
        for kind in ("Zero", "Reflection", "Replication", "Circular"):
            add(f"{kind.lower()}_pad{d}d", getattr(nn, f"{kind}Pad{d}d")(1), x)
        add(f"constant_pad{d}d", getattr(nn, f"ConstantPad{d}d")(1, 0.5), x)
    add("zero_pad2d_sides", nn.ZeroPad2d((1, 2, -1, 3)), x2)


def norms():
    for d, shape in ((1, (4, 3, 2)), (2, (2, 3, 2, 3)), (3, (2, 2, 2, 2, 2))):
        x, channels = wave(*shape), shape[1]
        batch, instance = getattr(nn, f"BatchNorm{d}d"), getattr(nn, f"InstanceNorm{d}d")
        add(f"batch_norm{d}d_train", batch(channels), x, train=True)
        add(f"batch_norm{d}d_eval", batch(channels), x)
        add(f"instance_norm{d}d", instance(channels), x, train=True)
        add(f"instance_norm{d}d_all", instance(channels, affine=True, track_running_stats=True), x, train=True)
        add(f"instance_norm{d}d_eval", instance(channels, affine=True, track_running_stats=True), x)
    x = wave(4, 3)
    add("batch_norm1d_cumulative", nn.BatchNorm1d(3, momentum=None), x, train=True)
    add("batch_norm1d_plain", nn.BatchNorm1d(3, eps=1e-3, momentum=0.5, affine=False, track_running_stats=False), x)
    add("batch_norm1d_plain_train", nn.BatchNorm1d(3, track_running_stats=False), x, train=True)
    add("batch_norm1d_no_bias", nn.BatchNorm1d(3, bias=False), x, train=True)
    add("instance_norm2d_unbatched", nn.InstanceNorm2d(3, affine=True), wave(3, 2, 3), train=True)
    add("layer_norm", nn.LayerNorm(4), wave(2, 3, 4))
    add("layer_norm_2", nn.LayerNorm((3, 4), eps=1e-3, bias=False), wave(2, 3, 4))
    add("layer_norm_plain", nn.LayerNorm(4, elementwise_affine=False), wave(2, 4))
    add("rms_norm", nn.RMSNorm(4), wave(2, 3, 4))
    add("rms_norm_eps", nn.RMSNorm((3, 4), eps=1e-2, elementwise_affine=False), wave(2, 3, 4))
    add("group_norm", nn.GroupNorm(2, 4), wave(2, 4, 3))
    add("group_norm_plain", nn.GroupNorm(3, 6, eps=1e-3, affine=False), wave(2, 6, 2))
    add("local_response_norm", nn.LocalResponseNorm(3, alpha=0.1, k=2.0), wave(2, 5, 3))


def dropouts():
    for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"):
        shape = {"Dropout1d": (2, 2, 3), "Dropout2d": (1, 2, 2, 2), "Dropout3d": (1, 2, 1, 2, 2)}.get(name, (2, 3))
        add(f"{name.lower()}_eval", getattr(nn, name)(0.3), wave(*shape))
        add(f"{name.lower()}_zero", getattr(nn, name)(0.0, inplace=True), wave(*shape), train=True)


def activations():
    x = wave(3, 8, scale=3)
    for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "ELU", "CELU", "LeakyReLU",
                 "RReLU", "Hardtanh"):
        add(name.lower(), getattr(nn, name)(), x)
        add(f"{name.lower()}_inplace", getattr(nn, name)(inplace=True), x)
    for name in ("Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "Softplus", "Hardshrink", "Softshrink",
                 "GELU", "GLU", "PReLU"):
        add(name.lower(), getattr(nn, name)(), x)
    add("elu_alpha", nn.ELU(0.5), x)
    add("celu_alpha", nn.CELU(2.0), x)
    add("leakyrelu_slope", nn.LeakyReLU(0.2), x)
    add("hardtanh_range", nn.Hardtanh(-0.5, 2.0), x)
    add("softplus_beta", nn.Softplus(2.0, 1.5), x)
    add("gelu_tanh", nn.GELU(approximate="tanh"), x)
    add("glu_0", nn.GLU(0), wave(4, 3))
    add("threshold", nn.Threshold(0.1, 20.0), x)
    add("threshold_inplace", nn.Threshold(-1.0, 2.5, inplace=True), x)
    add("prelu_channels", nn.PReLU(3, init=0.1), wave(2, 3, 4))
    for name in ("Softmax", "LogSoftmax", "Softmin"):
        add(name.lower(), getattr(nn, name)(dim=1), x)
        add(f"{name.lower()}_last", getattr(nn, name)(-1), wave(2, 3, 2))
    add("softmax2d", nn.Softmax2d(), wave(1, 3, 2, 2))


def embeddings():
    ids = torch.tensor([[1, 4, 1], [0, 2, 3]])
    add("embedding", nn.Embedding(5, 3), ids)
    add("embedding_all", nn.Embedding(5, 3, padding_idx=-4, max_norm=0.5, norm_type=1.0, scale_grad_by_freq=True), ids)
    add("embedding_bag", nn.EmbeddingBag(5, 3), ids)
    add("embedding_bag_sum", nn.EmbeddingBag(5, 3, mode="sum", padding_idx=2), ids.reshape(-1), torch.tensor([0, 2, 2]))
    add("embedding_bag_max", nn.EmbeddingBag(5, 3, mode="max", include_last_offset=True), ids.reshape(-1),
        torch.tensor([0, 2, 6]))


def shapes():
    add("upsample", nn.Upsample(scale_factor=2), wave(1, 2, 3))
    add("upsample_size", nn.Upsample(size=(3, 5), mode="bilinear"), wave(1, 1, 2, 3))
    add("upsample_factors", nn.Upsample(scale_factor=(2, 1.5), mode="bicubic", align_corners=True), wave(1, 1, 3, 4))
    add("pixel_shuffle", nn.PixelShuffle(2), wave(1, 4, 2, 3))
    add("pixel_unshuffle", nn.PixelUnshuffle(2), wave(1, 1, 4, 2))
    add("channel_shuffle", nn.ChannelShuffle(2), wave(1, 4, 2))
    add("fold", nn.Fold((3, 4), 2, padding=1, stride=2), wave(1, 4, 6))
    add("unfold", nn.Unfold((2, 3), dilation=1, padding=1, stride=2), wave(1, 2, 4, 5))
    add("cosine_similarity", nn.CosineSimilarity(dim=1), wave(3, 4), wave(3, 4, seed=1))
    add("pairwise_distance", nn.PairwiseDistance(), wave(3, 4), wave(3, 4, seed=1))
    add("pairwise_distance_1", nn.PairwiseDistance(p=1.0, keepdim=True), wave(3, 4), wave(3, 4, seed=1))


def losses():
    x, y = wave(4, 3), wave(4, 3, seed=2)
    p, q = torch.sigmoid(x).round(decimals=3), torch.sigmoid(y).round(decimals=3)
    classes = torch.tensor([2, 0, 1, 1])
    signs = target(torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64))
    w = torch.ones(3)
    for reduction in ("mean", "sum", "none"):
        def loss(name, inputs, **options):
            add(f"{name.lower()}_{reduction}", getattr(nn, name)(reduction=reduction, **options), *inputs)
        loss("L1Loss", (x, y))
        loss("MSELoss", (x, y))
        loss("SmoothL1Loss", (x, y), beta=0.5)
        loss("HuberLoss", (x, y), delta=0.5)
        loss("CrossEntropyLoss", (x, classes), weight=w, ignore_index=0, label_smoothing=0.1)
        loss("NLLLoss", (x, classes), weight=w, ignore_index=0)
        loss("PoissonNLLLoss", (x, target(p)), full=True)
        loss("GaussianNLLLoss", (x, y, p), full=True)
        loss("KLDivLoss", (x, q))
        loss("BCELoss", (p, q), weight=w)
        loss("BCEWithLogitsLoss", (x, q), weight=w, pos_weight=w)
        loss("MarginRankingLoss", (x[:, 0], y[:, 0], signs), margin=0.5)
        loss("HingeEmbeddingLoss", (x, target(torch.where(y > 0, 1.0, -1.0).double())), margin=0.5)
        loss("CosineEmbeddingLoss", (x, y, signs), margin=0.1)
        loss("SoftMarginLoss", (x, target(torch.where(y > 0, 1.0, -1.0).double())))
        loss("MultiLabelMarginLoss", (x, torch.tensor([[2, 0, -1], [0, -1, 1], [1, 2, 0], [-1, 0, 0]])))
        loss("MultiLabelSoftMarginLoss", (x, target((y > 0).double())), weight=w)
        loss("MultiMarginLoss", (x, classes), p=2, margin=0.5, weight=w)
        loss("TripletMarginLoss", (x, y, p), margin=0.7, swap=True)
        loss("TripletMarginWithDistanceLoss", (x, y, p), margin=0.7, swap=True)
    add("kldivloss_batchmean", nn.KLDivLoss(reduction="batchmean", log_target=True), x, y)
    probabilities = torch.log_softmax(wave(5, 2, 4), -1).round(decimals=3)
    add("ctcloss", nn.CTCLoss(), probabilities, torch.tensor([[1, 2], [3, 3]]), torch.tensor([5, 4]),
        torch.tensor([2, 2]))


def main():
    torch.manual_seed(0)
    for family in (linear, convolutions, pools, paddings, norms, dropouts, activations, embeddings, shapes, losses):
        family()
    lines = [text for case in cases for text in run(*case)]
    path = pathlib.Path(__file__).parent / "goldens/layers.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
