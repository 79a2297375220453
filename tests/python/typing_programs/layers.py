"""A correct program: layers of every kind, with the arguments that programs give them."""
from collections import OrderedDict
from typing import Any, Callable, Optional

import tensora
from tensora import Tensor, nn
import tensora.nn.functional as F
from tensora.nn.common_types import _size_2_t

layers: list[nn.Module] = [
    nn.Linear(3, 4), nn.Linear(3, 4, bias=False, dtype=tensora.float64, device="cpu"), nn.Bilinear(2, 3, 4),
    nn.Conv1d(3, 4, 3), nn.Conv2d(3, 8, (3, 3), stride=2, padding="same" if False else 1, groups=1),
    nn.Conv2d(3, 8, 3, padding="valid", padding_mode="reflect"), nn.Conv3d(1, 2, (1, 2, 3)),
    nn.ConvTranspose2d(3, 4, 2, 2, output_padding=1), nn.LazyLinear(3), nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d(),
    nn.BatchNorm1d(3), nn.BatchNorm2d(3, momentum=None), nn.SyncBatchNorm(4), nn.InstanceNorm2d(3, affine=True),
    nn.LayerNorm(3), nn.LayerNorm([3, 4]), nn.LayerNorm((3,), eps=1e-6), nn.LayerNorm(tensora.zeros(2, 3).shape[1:]),
    nn.RMSNorm(8), nn.GroupNorm(2, 4), nn.LocalResponseNorm(5), nn.Dropout(), nn.Dropout(0.1, inplace=True),
    nn.Dropout2d(0), nn.AlphaDropout(0.2), nn.ReLU(True), nn.ReLU(inplace=True), nn.GELU("tanh"), nn.SiLU(), nn.ELU(1),
    nn.LeakyReLU(0.2, True), nn.Hardtanh(-2, 2), nn.Softmax(-1), nn.Softmax(dim=1), nn.LogSoftmax(1), nn.PReLU(),
    nn.Sigmoid(), nn.Tanh(), nn.Softplus(), nn.GLU(), nn.Threshold(0.1, 20), nn.Identity(1, a=2),
    nn.MaxPool1d(2), nn.MaxPool2d(2, 2), nn.MaxPool2d((2, 2), stride=(2, 1), return_indices=True), nn.MaxUnpool2d(2),
    nn.AvgPool2d(2, ceil_mode=True), nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((None, 7)), nn.AdaptiveMaxPool2d((5, 7)),
    nn.LPPool2d(2, 3), nn.FractionalMaxPool2d(3, output_ratio=0.5), nn.Embedding(10, 3, padding_idx=0),
    nn.EmbeddingBag(10, 3, mode="sum"), nn.Flatten(), nn.Flatten(0, 1), nn.Unflatten(1, (2, 3)), nn.PixelShuffle(2),
    nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Upsample((4, 4)), nn.ZeroPad2d(1),
    nn.ZeroPad2d((1, 1, 2, 2)), nn.ConstantPad1d(2, 3.5), nn.ReflectionPad2d(2), nn.CircularPad3d(1),
    nn.RNN(3, 4, nonlinearity="relu"), nn.LSTM(3, 4, num_layers=2, batch_first=True, dropout=0.1, proj_size=2),
    nn.GRU(3, 4, 2, bidirectional=True), nn.LSTMCell(3, 4), nn.MultiheadAttention(8, 2, batch_first=True),
    nn.TransformerEncoderLayer(8, 2, activation="gelu"), nn.TransformerDecoderLayer(8, 2, activation=F.relu),
    nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2, norm=nn.LayerNorm(8)), nn.Transformer(d_model=8, nhead=2),
    nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]), nn.CosineSimilarity(dim=1), nn.PairwiseDistance(2),
    nn.CrossEntropyLoss(tensora.ones(3), ignore_index=-1, label_smoothing=0.1), nn.NLLLoss(reduction="sum"),
    nn.BCEWithLogitsLoss(pos_weight=tensora.ones(1)), nn.MSELoss(), nn.L1Loss(reduction="none"), nn.SmoothL1Loss(beta=0.5),
    nn.HuberLoss("mean", 2), nn.KLDivLoss(reduction="batchmean", log_target=True), nn.CTCLoss(blank=1),
    nn.TripletMarginLoss(margin=0.5, p=2), nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs()),
    nn.CosineEmbeddingLoss(0.5), nn.MarginRankingLoss(), nn.GaussianNLLLoss(full=True), nn.PoissonNLLLoss(False),
]


class Block(nn.Module):
    scale: Tensor
    expansion: int = 2

    def __init__(self, width: int, kernel: _size_2_t = 3, act: Callable[..., nn.Module] = nn.ReLU,
                 norm: Optional[Callable[..., nn.Module]] = None) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(width, width, kernel, padding=1), act(inplace=True))
        self.named = nn.Sequential(OrderedDict([("a", nn.Linear(width, width)), ("b", nn.Tanh())]))
        self.heads = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.more = nn.ModuleDict({"x": nn.Identity()})
        self.weights = nn.ParameterList([nn.Parameter(tensora.ones(width))])
        self.gain = nn.Parameter(tensora.zeros(1), requires_grad=False)
        self.norm = norm(width) if norm is not None else None
        self.register_buffer("scale", tensora.ones(1), persistent=False)
        self.register_buffer("offset", tensora.zeros(1))
        self.down: nn.Module | None = None
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
                    m.bias.data.fill_(0.01)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
        self.apply(self._init)

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            module.weight.data.normal_(mean=0.0, std=0.02)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, int]:
        y: Tensor = self.net(x) * self.scale + self.offset
        for head in self.heads:
            y = head(y)
        y = self.more["x"](y) + self.weights[0] * self.gain
        if self.norm is not None:
            y = self.norm(y)
        if self.down is not None:
            y = self.down(y)
        if mask is not None:
            y = y.masked_fill(mask == 0, float("-inf"))
        return y, y.shape[0] * self.expansion

    def extra_repr(self) -> str:
        return f"{self.gain.item()}"


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.project = nn.Linear(width, width, bias=False)
        self.project.weight = nn.Parameter(tensora.zeros(width, width))

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.attention(x, x, x, need_weights=False)
        b, t, c = x.size()
        q = x.view(b, t, 2, c // 2).transpose(1, 2)
        out = out + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).contiguous().view(b, t, c)
        return self.project(F.gelu(out, approximate="tanh"))


def functions(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
    y = F.linear(x, w, bias=None)
    y = F.relu(F.conv2d(y, w, None, stride=(2, 2), padding="same"), inplace=True)
    y = F.leaky_relu(y, 0.1) + F.elu(y) + F.softplus(y) + F.silu(y) + F.hardtanh(y, -1, 1)
    y = F.max_pool2d(y, 2) + F.avg_pool2d(y, (2, 2), stride=1) + F.adaptive_avg_pool2d(y, 1)
    y = F.dropout(y, p=0.1, training=True) + F.layer_norm(y, (3,), w, w) + F.layer_norm(y, y.shape[1:])
    y = F.batch_norm(y, None, None, training=True) + F.group_norm(y, 2) + F.normalize(y, dim=-1)
    y = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False) + F.interpolate(y, size=(4, 4))
    y = F.pad(y, (1, 1), "constant", 0) + F.pad(y, [1, 1], mode="reflect") + F.unfold(y, 3)
    y = y + F.embedding(target, w, padding_idx=0) + F.one_hot(target, num_classes=3).float()
    y = y + F.softmax(y, dim=-1) + F.log_softmax(y, -1, dtype=tensora.float32) + F.gumbel_softmax(y, tau=0.5, hard=True)
    losses = (F.cross_entropy(y, target, ignore_index=-1) + F.nll_loss(y, target) + F.mse_loss(y, y, reduction="none")
              + F.binary_cross_entropy_with_logits(y, y) + F.kl_div(y, y, reduction="batchmean") + F.l1_loss(y, y)
              + F.smooth_l1_loss(y, y, beta=0.5) + F.cosine_similarity(y, y, dim=1) + F.triplet_margin_loss(y, y, y))
    return losses.mean()


layer = nn.Linear(3, 4)
width: int = layer.in_features
weight: Tensor = layer.weight
layer.weight.data = tensora.zeros(4, 3)
layer.weight.requires_grad = False
for parameter in layer.parameters():
    parameter.requires_grad_(False)
copy: nn.Linear = layer.to("cpu").double().train(False).eval()
half: nn.Linear = layer.to(device=tensora.device("cpu"), dtype=tensora.float16, non_blocking=True)
state: dict[str, Any] = layer.state_dict()
keys = layer.load_state_dict(state, strict=False)
print(keys.missing_keys, keys.unexpected_keys)
layer.load_state_dict({k: v for k, v in state.items()})
total: int = sum(p.numel() for p in layer.parameters() if p.requires_grad)
handle = layer.register_forward_hook(lambda m, args, out: None)
handle.remove()
for name, child in nn.Sequential(layer, nn.ReLU()).named_children():
    print(name, child)
stack = nn.Sequential(*[nn.Linear(3, 3) for _ in range(2)])
stack.append(nn.ReLU()).add_module("last", nn.Identity())
print(stack[0].weight, stack[:1](tensora.ones(1, 3)), len(stack), [type(m).__name__ for m in stack])
output, (h, c) = nn.LSTM(3, 4)(tensora.zeros(2, 1, 3))
packed = nn.utils.rnn.pack_padded_sequence(tensora.zeros(2, 3, 4), [2, 1, 1], enforce_sorted=False)
padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
rows = nn.utils.rnn.pad_sequence([tensora.zeros(2), tensora.zeros(3)], batch_first=True, padding_value=-1)
tied = nn.Embedding.from_pretrained(tensora.zeros(3, 4), freeze=False)
layer.weight = nn.Parameter(tied.weight)
layer.bias = None
losses: Callable[[Tensor, Tensor], Tensor] = nn.CrossEntropyLoss()
