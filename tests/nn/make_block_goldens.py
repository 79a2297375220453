#!/usr/bin/env python3
"""Writes goldens/blocks.txt: PyTorch's and transformers' results for the recurrent layers, attention,
rotary embeddings and the transformer layers."""
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from filled import Goldens, fill, filled  # noqa: E402

g = Goldens()


def input(name, *sizes):
    return filled(name, *sizes).requires_grad_()


def recurrent():
    cases = {"rnn": (nn.RNN(3, 4, nonlinearity="relu"), 1), "lstm": (nn.LSTM(3, 4), 2),
             "lstm_deep": (nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True, bias=False), 2),
             "lstm_proj": (nn.LSTM(3, 5, num_layers=2, proj_size=2), 2),
             "gru": (nn.GRU(3, 4, num_layers=2, bidirectional=True), 1)}
    for name, (layer, states) in cases.items():
        fill(layer)
        x = input("x", 2, 5, 3) if layer.batch_first else input("x", 5, 2, 3)
        output, last = layer(x)
        g.put(f"{name}.output", output)
        last = last if states == 2 else (last,)
        for i, state in enumerate(last):
            g.put(f"{name}.state{i}", state)
        g.gradients(name, [output, *last], layer, [x])
    lstm = fill(nn.LSTM(3, 4))
    output, (h, c) = lstm(filled("x", 5, 3), (filled("h", 1, 4), filled("c", 1, 4)))
    g.put("lstm_unbatched.output", output)
    g.put("lstm_unbatched.cell", c)
    gru = fill(nn.GRU(3, 4, bidirectional=True))
    packed = nn.utils.rnn.pack_padded_sequence(filled("x", 5, 3, 3), torch.tensor([2, 5, 3]), enforce_sorted=False)
    output, h = gru(packed, filled("h", 2, 3, 4))
    g.put("gru_packed.output", nn.utils.rnn.pad_packed_sequence(output)[0])
    g.put("gru_packed.state", h)
    packed = nn.utils.rnn.pack_padded_sequence(filled("x", 5, 3, 3), torch.tensor([2, 5, 3]), enforce_sorted=False)
    output, (h, c) = lstm(packed)
    g.put("lstm_packed.output", nn.utils.rnn.pad_packed_sequence(output)[0])
    g.put("lstm_packed.cell", c)
    for name, cell in {"rnn_cell": nn.RNNCell(3, 4), "gru_cell": nn.GRUCell(3, 4, bias=False)}.items():
        fill(cell)
        x = input("x", 2, 3)
        output = cell(x, filled("h", 2, 4))
        g.put(f"{name}.output", output)
        g.gradients(name, [output], cell, [x])
    cell = fill(nn.LSTMCell(3, 4))
    h, c = cell(filled("x", 2, 3))
    g.put("lstm_cell.hidden", h)
    g.put("lstm_cell.cell", c)


def attention():
    mha = fill(nn.MultiheadAttention(8, 2))
    x = input("x", 4, 3, 8)
    output, weights = mha(x, x, x)
    g.put("mha.output", output)
    g.put("mha.weights", weights)
    g.gradients("mha", [output], mha, [x])
    mha = fill(nn.MultiheadAttention(8, 2, batch_first=True, kdim=5, vdim=6, add_bias_kv=True, add_zero_attn=True))
    q, k, v = input("q", 3, 4, 8), input("k", 3, 7, 5), input("v", 3, 7, 6)
    padding = filled("padding", 3, 7) > 0.4
    mask = filled("mask", 6, 4, 7)
    output, weights = mha(q, k, v, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False)
    g.put("mha_all.output", output)
    g.put("mha_all.weights", weights)
    g.gradients("mha_all", [output], mha, [q, k, v])
    mha = fill(nn.MultiheadAttention(8, 4, batch_first=True, bias=False))
    q, k = input("q", 3, 4, 8), input("k", 3, 7, 8)
    output, _ = mha(q, k, k, key_padding_mask=padding, attn_mask=filled("mask", 4, 7) > 0.5, need_weights=False)
    g.put("mha_cross.output", output)
    g.gradients("mha_cross", [output], mha, [q, k])


def rotary():
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    scalings = {
        "linear": {"factor": 4.0}, "dynamic": {"factor": 2.0},
        "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
        "longrope": {"short_factor": [1.0 + 0.1 * i for i in range(8)], "long_factor": [2.0 + 0.3 * i for i in range(8)],
                     "original_max_position_embeddings": 32}}
    for name, scaling in scalings.items():
        parameters = {"rope_type": name, "rope_theta": 10000.0, **scaling}
        config = LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=128, rope_parameters=parameters)
        for length in (16, 200):
            frequencies, strength = ROPE_INIT_FUNCTIONS[name](config, torch.device("cpu"), seq_len=length)
            g.put(f"rope.{name}.{length}", torch.cat([frequencies, torch.tensor([float(strength)])]))


def transformer():
    layers = {"encoder_layer": nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0),
              "encoder_pre": nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", norm_first=True, batch_first=True, bias=False)}
    for name, layer in layers.items():
        fill(layer)
        x = input("x", 3, 4, 8)
        steps = 4 if name == "encoder_pre" else 3
        batch = 7 - steps
        output = layer(x, src_mask=filled("mask", steps, steps), src_key_padding_mask=(filled("padding", batch, steps) > 0.6).float() * -1e4)
        g.put(f"{name}.output", output)
        g.gradients(name, [output], layer, [x])
    for name, options in {"decoder_layer": {}, "decoder_pre": {"norm_first": True, "batch_first": True, "activation": "gelu"}}.items():
        layer = fill(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, **options))
        x, memory = input("x", 4, 4, 8), input("memory", 4, 4, 8)
        mask = torch.triu(torch.full((4, 4), float("-inf")), diagonal=1)
        output = layer(x, memory, tgt_mask=mask, memory_key_padding_mask=filled("padding", 4, 4) > 0.7)
        g.put(f"{name}.output", output)
        g.gradients(name, [output], layer, [x, memory])
    model = fill(nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True))
    x, y = input("x", 2, 5, 8), input("y", 2, 4, 8)
    output = model(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(4))
    g.put("transformer.output", output)
    g.gradients("transformer", [output], model, [x, y])


recurrent()
attention()
rotary()
transformer()
g.write(pathlib.Path(__file__).resolve().parent / "goldens/blocks.txt")
