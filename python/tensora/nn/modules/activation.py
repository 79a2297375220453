"""Activations as modules, and attention."""
from ... import _C
from .. import functional as F, init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["PReLU", "Softmax", "LogSoftmax", "Softmin", "Softmax2d", "MultiheadAttention", "RReLU", "Threshold"]


def _activation(name, function, inplace=False, **defaults):
    """A module that calls a function with attributes of these names."""
    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        names = list(defaults) + (["inplace"] if inplace else [])
        if len(args) > len(names):
            raise TypeError(f"{name}() takes at most {len(names)} arguments ({len(args)} given)")
        values = {**defaults, **({"inplace": False} if inplace else {}), **dict(zip(names, args)), **kwargs}
        for key, value in values.items():
            if key not in names:
                raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
            setattr(self, key, value)
        if "min_val" in values and not values["max_val"] > values["min_val"]:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")
        self._names = names

    def forward(self, input):
        return function(input, **{key: getattr(self, key) for key in self._names})

    def extra_repr(self):
        if list(defaults) == ["lambd"]:
            return f"{self.lambd}"
        parts = [f"{key}={getattr(self, key)!r}" for key in defaults]
        return ", ".join(parts + (["inplace=True"] if inplace and self.inplace else []))

    cls = type(name, (Module,), {"__init__": __init__, "forward": forward, "extra_repr": extra_repr,
                                 "__module__": __name__, "__doc__": function.__doc__})
    __all__.append(name)
    return cls


ReLU = _activation("ReLU", F.relu, inplace=True)
ReLU6 = _activation("ReLU6", F.relu6, inplace=True)
ELU = _activation("ELU", F.elu, inplace=True, alpha=1.0)
SELU = _activation("SELU", F.selu, inplace=True)
CELU = _activation("CELU", F.celu, inplace=True, alpha=1.0)
SiLU = _activation("SiLU", F.silu, inplace=True)
Mish = _activation("Mish", F.mish, inplace=True)
LeakyReLU = _activation("LeakyReLU", F.leaky_relu, inplace=True, negative_slope=0.01)
Hardtanh = _activation("Hardtanh", F.hardtanh, inplace=True, min_val=-1.0, max_val=1.0)
Hardsigmoid = _activation("Hardsigmoid", F.hardsigmoid, inplace=True)
Hardswish = _activation("Hardswish", F.hardswish, inplace=True)
GELU = _activation("GELU", F.gelu, approximate="none")
GLU = _activation("GLU", F.glu, dim=-1)
Sigmoid = _activation("Sigmoid", F.sigmoid)
Tanh = _activation("Tanh", F.tanh)
LogSigmoid = _activation("LogSigmoid", F.logsigmoid)
Softplus = _activation("Softplus", F.softplus, beta=1.0, threshold=20.0)
Softshrink = _activation("Softshrink", F.softshrink, lambd=0.5)
Hardshrink = _activation("Hardshrink", F.hardshrink, lambd=0.5)
Softsign = _activation("Softsign", F.softsign)
Tanhshrink = _activation("Tanhshrink", F.tanhshrink)


class Threshold(Module):
    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    def __init__(self, lower=1. / 8, upper=1. / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """max(0, x) + weight · min(0, x)"""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(_C.full((num_parameters,), init, device=device, dtype=dtype or _C.get_default_dtype()))

    def forward(self, input):
        return _C.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softmax(Module):
    _function = staticmethod(F.softmax)

    def __init__(self, dim=None):
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
            raise TypeError(f"dim must be an int or None, got {type(dim)}")
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return self._function(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    _function = staticmethod(F.log_softmax)


class Softmin(Softmax):
    _function = staticmethod(F.softmin)


class Softmax2d(Module):
    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class MultiheadAttention(Module):
    """Attention with several heads and projections."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        make = lambda *size: Parameter(_C.empty(size, device=device, dtype=dtype))  # noqa: E731
        if self._qkv_same_embed_dim:
            self.in_proj_weight = make(3 * embed_dim, embed_dim)
            names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        else:
            self.q_proj_weight = make(embed_dim, embed_dim)
            self.k_proj_weight, self.v_proj_weight = make(embed_dim, self.kdim), make(embed_dim, self.vdim)
            names = ("in_proj_weight",)
        for name in names:
            self.register_parameter(name, None)
        self.register_parameter("in_proj_bias", make(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k, self.bias_v = make(1, 1, embed_dim), make(1, 1, embed_dim)
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if self.batch_first and query.dim() == 3:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        result, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal)
        return (result.transpose(0, 1) if self.batch_first and query.dim() == 3 else result), weights
