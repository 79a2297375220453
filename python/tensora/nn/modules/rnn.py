"""Recurrent networks. `device` and `dtype` say where and as what parameters are made."""
from __future__ import annotations

import math
from typing import Any

from ... import _C
from ..._C import Tensor
from .. import init
from ..common_types import Device, Dtype
from ..parameter import Parameter
from .module import Module
from ..utils.rnn import PackedSequence

__all__ = ["RNN", "LSTM", "GRU", "RNNBase", "RNNCell", "LSTMCell", "GRUCell"]


class RNNBase(Module):
    """What RNN, LSTM and GRU share, chosen by `mode` "RNN_TANH", "RNN_RELU", "LSTM" or "GRU": `input_size`, `hidden_size`,
    `num_layers`, `bias`, `batch_first`, `dropout`, `bidirectional` and `proj_size` as there."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        if not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")
        for name, value in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
        if input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        gates = {"LSTM": 4, "GRU": 3}.get(mode, 1) * hidden_size
        directions = 2 if bidirectional else 1
        state = proj_size or hidden_size
        self._names = []
        for layer in range(num_layers):
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                inputs = input_size if layer == 0 else state * directions
                sizes = {"weight_ih": (gates, inputs), "weight_hh": (gates, state)}
                if bias:
                    sizes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    sizes["weight_hr"] = (proj_size, hidden_size)
                for name, size in sizes.items():
                    setattr(self, name + suffix, Parameter(_C.empty(size, device=device, dtype=dtype)))
                    self._names.append(name + suffix)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: the op takes the weights as they are."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        per = len(self._names) // (self.num_layers * (2 if self.bidirectional else 1))
        names = self._names
        return [[getattr(self, n) for n in names[i:i + per]] for i in range(0, len(names), per)]

    def _zeros(self, like, batch, size):
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return _C.zeros(layers, batch, size, dtype=like.dtype, device=like.device)

    def _run(self, *arguments, batch_first):
        function = {"LSTM": _C.lstm, "GRU": _C.gru, "RNN_TANH": _C.rnn_tanh, "RNN_RELU": _C.rnn_relu}[self.mode]
        weights = [getattr(self, name) for name in self._names]
        tail = (batch_first,) if batch_first is not None else ()
        return function(*arguments, weights, self.bias, self.num_layers, self.dropout, self.training,
                        self.bidirectional, *tail)

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = isinstance(input, PackedSequence)
        lstm = self.mode == "LSTM"
        if packed:
            data, sizes, order, back = input
            batch = int(sizes[0])
        else:
            if input.dim() not in (2, 3):
                raise ValueError(f"{self.mode}: Expected input to be 2D or 3D, got {input.dim()}D instead")
            unbatched = input.dim() == 2
            data = input.unsqueeze(0 if self.batch_first else 1) if unbatched else input
            batch = data.shape[0 if self.batch_first else 1]
        weight = getattr(self, self._names[0])
        if data.dtype != weight.dtype and not _C._is_autocast_enabled(data.device.type):
            raise ValueError(f"RNN input dtype ({data.dtype}) does not match weight dtype ({weight.dtype}). Convert "
                             f"input: input.to({weight.dtype}), or convert model: model.to({data.dtype})")
        if data.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                               f"{data.shape[-1]}")
        hidden, cell = (hx if lstm else (hx, None)) if hx is not None else (None, None)
        if hidden is None:
            hidden = self._zeros(data, batch, self.proj_size or self.hidden_size)
            cell = self._zeros(data, batch, self.hidden_size) if lstm else None
        elif packed and order is not None:
            hidden, cell = hidden.index_select(1, order), cell.index_select(1, order) if lstm else None
        elif not packed and unbatched:
            hidden, cell = hidden.unsqueeze(1), cell.unsqueeze(1) if lstm else None
        state = [hidden, cell] if lstm else hidden
        result = (self._run(data, sizes, state, batch_first=None) if packed
                  else self._run(data, state, batch_first=self.batch_first))
        output, states = result[0], list(result[1:])
        if packed:
            output = PackedSequence(output, sizes, order, back)
            states = [s.index_select(1, back) for s in states] if back is not None else states
        elif unbatched:
            output = output.squeeze(0 if self.batch_first else 1)
            states = [s.squeeze(1) for s in states]
        return output, tuple(states) if lstm else states[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
                 "bidirectional": False}
        return text + "".join(f", {k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)


class RNN(RNNBase):
    """h = tanh(W x + U h), or relu of it (`nonlinearity`).

    `input_size` and `hidden_size` are the sizes of inputs and states; `num_layers` layers follow
    each other, with dropout of probability `dropout` between them. `bias` adds biases, `batch_first` takes [N, L, E] in
    place of [L, N, E], `bidirectional` adds a network that runs backwards.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Device = None, dtype: Dtype = None) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, bias, batch_first,
                         dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory.

    `input_size` and `hidden_size` are the sizes of inputs and states; `num_layers` layers follow
    each other, with dropout of probability `dropout` between them. `bias` adds biases, `batch_first` takes [N, L, E] in
    place of [L, N, E], `bidirectional` adds a network that runs backwards;
    `proj_size` projects the states to that size.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype)


class GRU(RNNBase):
    """Gated recurrent units.

    `input_size` and `hidden_size` are the sizes of inputs and states; `num_layers` layers follow
    each other, with dropout of probability `dropout` between them. `bias` adds biases, `batch_first` takes [N, L, E] in
    place of [L, N, E], `bidirectional` adds a network that runs backwards.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device,
                         dtype)


class _Cell(Module):
    def __init__(self, input_size: int, hidden_size: int, bias: bool, gates, device: Device, dtype: Dtype) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = gates * hidden_size
        make = lambda *size: Parameter(_C.empty(size, device=device, dtype=dtype))  # noqa: E731
        self.weight_ih, self.weight_hh = make(rows, input_size), make(rows, hidden_size)
        self.register_parameter("bias_ih", make(rows) if bias else None)
        self.register_parameter("bias_hh", make(rows) if bias else None)
        for weight in self.parameters():
            init.uniform_(weight, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _state(self, input, hx, name="hidden"):
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hx is not None and hx.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {hx.dim()}D instead")
        return self._zeros(input) if hx is None else hx

    def _zeros(self, input):
        return _C.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype, device=input.device)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of an RNN: `input_size`, `hidden_size`, `bias` and `nonlinearity` as there."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Device = None, dtype: Dtype = None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        function = _C.rnn_tanh_cell if self.nonlinearity == "tanh" else _C.rnn_relu_cell
        return function(input, self._state(input, hx), *self._weights())


class LSTMCell(_Cell):
    """One step of an LSTM: `input_size`, `hidden_size` and `bias` as there."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        state = [self._state(input, h, f"hx[{i}]") for i, h in enumerate(hx or (None, None))]
        return _C.lstm_cell(input, state, *self._weights())


class GRUCell(_Cell):
    """One step of a GRU: `input_size`, `hidden_size` and `bias` as there."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None,
                 dtype: Dtype = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return _C.gru_cell(input, self._state(input, hx), *self._weights())
