"""Models for test_onnx.py, written so that `T` may be tensora or torch: for each how it is made, example inputs of
several sizes, and its dynamic axes."""


def _layers(T):
    """The modules, as classes of T's nn."""
    nn, F = T.nn, T.nn.functional

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.c1(x)), 2)
            x = F.max_pool2d(F.relu(self.c2(x)), 2).flatten(1)
            return F.log_softmax(self.f3(F.relu(self.f2(F.relu(self.f1(x))))), dim=-1)

    class BasicBlock(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.c1, self.b1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.c2, self.b2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.down = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.b2(self.c2(self.relu(self.b1(self.c1(x)))))
            y += self.down(x)
            return self.relu(y)

    class ResNet18(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width),
                                      nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
            widths = [width, width, 2 * width, 4 * width, 8 * width]
            self.layers = nn.Sequential(*(nn.Sequential(BasicBlock(widths[i], widths[i + 1], 1 if i == 0 else 2),
                                                        BasicBlock(widths[i + 1], widths[i + 1], 1)) for i in range(4)))
            self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(8 * width, 10)

        def forward(self, x):
            return self.head(T.flatten(self.pool(self.layers(self.stem(x))), 1))

    class Attention(nn.Module):
        def __init__(self, size, heads):
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(size, 3 * size), nn.Linear(size, size)

        def forward(self, x, causal=False, mask=None):
            batch, steps, size = x.shape
            q, k, v = (part.view(batch, steps, self.heads, size // self.heads).transpose(1, 2)
                       for part in self.qkv(x).split(size, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
            return self.out(y.transpose(1, 2).contiguous().view(batch, steps, size))

    class Cross(nn.Module):
        def __init__(self, size, heads):
            super().__init__()
            self.heads, self.q, self.kv = heads, nn.Linear(size, size), nn.Linear(size, 2 * size)

        def forward(self, x, memory):
            def apart(y):
                return y.reshape(y.shape[0], y.shape[1], self.heads, -1).permute(0, 2, 1, 3)
            k, v = self.kv(memory).chunk(2, dim=-1)
            scores = T.matmul(apart(self.q(x)), apart(k).transpose(-2, -1)) / 2.0
            return T.matmul(T.softmax(scores, dim=-1), apart(v)).permute(0, 2, 1, 3).flatten(2)

    class Block(nn.Module):
        def __init__(self, size, heads, cross=False):
            super().__init__()
            self.n1, self.attention, self.n2 = nn.LayerNorm(size), Attention(size, heads), nn.LayerNorm(size)
            self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
            self.cross, self.n3 = (Cross(size, heads), nn.LayerNorm(size)) if cross else (None, None)

        def forward(self, x, causal=False, mask=None, memory=None):
            x = x + self.attention(self.n1(x), causal, mask)
            if self.cross is not None:
                x = x + self.cross(self.n3(x), memory)
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh" if causal else "none"))

    class GPT2(nn.Module):
        def __init__(self, size=32, context=16):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(50, size), nn.Embedding(context, size)
            self.blocks = nn.ModuleList([Block(size, 4) for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, 50, bias=False)
            self.head.weight = self.wte.weight
            self.context = context

        def forward(self, tokens):
            assert tokens.shape[1] <= self.context
            x = self.wte(tokens) + self.wpe(T.arange(0, tokens.shape[1]))
            for block in self.blocks:
                x = block(x, causal=True)
            return self.head(self.norm(x))

    class Bert(nn.Module):
        def __init__(self, size=32):
            super().__init__()
            self.words, self.positions = nn.Embedding(100, size, padding_idx=0), nn.Embedding(64, size)
            self.norm, self.blocks = nn.LayerNorm(size), nn.ModuleList([Block(size, 4) for _ in range(2)])
            self.pooler = nn.Linear(size, size)

        def forward(self, tokens, mask):
            x = self.norm(self.words(tokens) + self.positions(T.arange(tokens.shape[1]))[None])
            visible = (mask != 0)[:, None, None, :]
            for block in self.blocks:
                x = block(x, mask=visible)
            return x, T.tanh(self.pooler(x[:, 0]))

    class ViT(nn.Module):
        def __init__(self, size=32):
            super().__init__()
            self.patches = nn.Conv2d(3, size, 8, 8)
            self.cls, self.places = nn.Parameter(T.randn(1, 1, size)), nn.Parameter(T.randn(1, 17, size))
            self.blocks, self.head = nn.ModuleList([Block(size, 4) for _ in range(2)]), nn.Linear(size, 10)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = T.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.places
            for block in self.blocks:
                x = block(x)
            return self.head(x[:, 0])

    class Whisper(nn.Module):
        def __init__(self, size=32):
            super().__init__()
            self.c1, self.c2 = nn.Conv1d(8, size, 3, padding=1), nn.Conv1d(size, size, 3, stride=2, padding=1)
            self.places, self.words = nn.Parameter(T.randn(40, size)), nn.Embedding(50, size)
            self.encoder = nn.ModuleList([Block(size, 4) for _ in range(2)])
            self.decoder = nn.ModuleList([Block(size, 4, cross=True) for _ in range(2)])

        def forward(self, mel, tokens):
            memory = F.gelu(self.c2(F.gelu(self.c1(mel)))).transpose(1, 2)
            memory = memory + self.places[:memory.shape[1]]
            for block in self.encoder:
                memory = block(memory)
            x = self.words(tokens) + self.places[:tokens.shape[1]]
            for block in self.decoder:
                x = block(x, causal=True, memory=memory)
            return x @ self.words.weight.t()

    class Recurrent(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.layers = kind(5, 7, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x):
            return self.layers(x)

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
            self.lateral, self.head = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 6, 1)

        def forward(self, x):
            fine = F.silu(self.c1(x))
            up = F.interpolate(F.silu(self.c2(fine)), scale_factor=2.0, mode="nearest") + self.lateral(fine)
            y = self.head(up)
            batch, channels, height, width = y.shape
            y = y.permute(0, 2, 3, 1).reshape(batch, height * width, channels)
            rows, columns = T.meshgrid(T.arange(height), T.arange(width), indexing="ij")
            cells = T.stack([columns, rows], -1).reshape(1, -1, 2).float()
            centres, sizes = (y[..., :2].sigmoid() + cells) * 2, y[..., 2:4].exp()
            scores, best = y[..., 4].sigmoid().topk(10, dim=1)
            boxes = T.cat([centres - sizes / 2, centres + sizes / 2], -1)
            return boxes.gather(1, best[..., None].expand(-1, -1, 4)), scores, best

    return locals()


def _model(name, *args):
    return lambda T: _layers(T)[name](*args)


def _recurrent(kind):
    return lambda T: _layers(T)["Recurrent"](getattr(T.nn, kind))


def _images(*shape):
    return lambda T: (T.randn(*shape),)


def _tokens(batch, steps):
    return lambda T: (T.randint(1, 50, (batch, steps)),)


def _masked(batch, steps):
    def make(T):
        mask = T.ones(batch, steps, dtype=T.int64)
        mask[0, steps // 2:] = 0
        return T.randint(1, 50, (batch, steps)), mask
    return make


def _speech(batch, frames, steps):
    return lambda T: (T.randn(batch, 8, frames), T.randint(0, 50, (batch, steps)))


_BATCH, _SEQUENCE = {0: "batch"}, {0: "batch", 1: "time"}
MODELS = {
    "mlp": {"make": lambda T: T.nn.Sequential(T.nn.Linear(8, 16), T.nn.ReLU(), T.nn.Linear(16, 4)),
            "inputs": [_images(3, 8), _images(1, 8), _images(9, 8)], "axes": {"input": _BATCH}},
    "lenet": {"make": _model("LeNet"), "inputs": [_images(2, 1, 28, 28), _images(5, 1, 28, 28)], "axes": {"x": _BATCH}},
    "resnet18": {"make": _model("ResNet18"), "inputs": [_images(2, 3, 64, 64), _images(1, 3, 96, 70)],
                 "axes": {"x": {0: "batch", 2: "height", 3: "width"}}},
    "bert": {"make": _model("Bert"), "inputs": [_masked(2, 7), _masked(3, 12)],
             "axes": {"tokens": _SEQUENCE, "mask": _SEQUENCE}},
    "gpt2": {"make": _model("GPT2"), "inputs": [_tokens(2, 6), _tokens(1, 16)], "axes": {"tokens": _SEQUENCE}},
    "gpt2_full_context": {"make": _model("GPT2"), "inputs": [_tokens(2, 16), _tokens(3, 5)],
                          "axes": {"tokens": _SEQUENCE}},
    "vit": {"make": _model("ViT"), "inputs": [_images(2, 3, 32, 32), _images(1, 3, 32, 32)], "axes": {"x": _BATCH}},
    "lstm": {"make": _recurrent("LSTM"), "inputs": [_images(3, 6, 5), _images(2, 9, 5)], "axes": {"x": _SEQUENCE}},
    "gru": {"make": _recurrent("GRU"), "inputs": [_images(3, 6, 5), _images(2, 9, 5)], "axes": {"x": _SEQUENCE}},
    "rnn": {"make": _recurrent("RNN"), "inputs": [_images(3, 6, 5), _images(2, 9, 5)], "axes": {"x": _SEQUENCE}},
    "whisper": {"make": _model("Whisper"), "inputs": [_speech(2, 20, 5), _speech(1, 31, 9)],
                "axes": {"mel": {0: "batch", 2: "frames"}, "tokens": _SEQUENCE}},
    "detector": {"make": _model("Detector"), "inputs": [_images(2, 3, 32, 40), _images(1, 3, 48, 32)],
                 "axes": {"x": {0: "batch", 2: "height", 3: "width"}}},
}
