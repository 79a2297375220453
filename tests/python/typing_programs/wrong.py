"""A program of mistakes. A type checker has to report each line that ends in `# wrong`, and no other; mypy also those that
assign to an attribute of another type, which pyright allows."""
import tensora
from tensora import Tensor, nn
import tensora.nn.functional as F
from tensora.optim.lr_scheduler import CosineAnnealingLR, StepLR

x = tensora.randn(2, 3)

# Arguments of layers
nn.Linear("3", 4)  # wrong
nn.Linear(3)  # wrong
nn.Linear(3, 4, bais=True)  # wrong
nn.Conv2d(3, 8, 3.5)  # wrong
nn.Conv2d(3, 8, (3, 3, 3))  # wrong
nn.Conv2d(3, 8, 3, padding_mode="mirror")  # wrong
nn.Conv1d(3, 8)  # wrong
nn.ConvTranspose2d(3, 8, 3, padding="same")  # wrong
nn.BatchNorm2d("8")  # wrong
nn.LayerNorm("8")  # wrong
nn.GroupNorm(2)  # wrong
nn.Dropout("0.5")  # wrong
nn.ReLU(inplace="yes")  # wrong
nn.GELU(approximate=True)  # wrong
nn.LeakyReLU(negative_slope="0.1")  # wrong
nn.Softmax(dim="last")  # wrong
nn.Sigmoid(3)  # wrong
nn.Embedding(10)  # wrong
nn.Embedding(10, 4, padding_idx="0")  # wrong
nn.MaxPool2d()  # wrong
nn.MaxPool2d("2")  # wrong
nn.AvgPool2d(2, count_include=True)  # wrong
nn.AdaptiveAvgPool2d((1, 1, 1))  # wrong
nn.LSTM(8)  # wrong
nn.LSTM(8, 16, layers=2)  # wrong
nn.GRU(8, 16, proj_size=4)  # wrong
nn.MultiheadAttention(8, "2")  # wrong
nn.TransformerEncoderLayer(8, 2, dropout="0.1")  # wrong
nn.TransformerEncoder(3, 2)  # wrong
nn.CrossEntropyLoss(weight=1.0)  # wrong
nn.CrossEntropyLoss(label_smoothing="0.1")  # wrong
nn.MSELoss(reduction=None)  # wrong
nn.HuberLoss(beta=1.0)  # wrong
nn.ZeroPad2d((1, 2, 3))  # wrong
nn.Upsample(scale_factor="2")  # wrong
nn.Flatten(start="1")  # wrong
nn.Sequential(nn.Linear(3, 4), 5)  # wrong
nn.ModuleList([1, 2])  # wrong
nn.ModuleDict({"a": 3})  # wrong
nn.Parameter(3.0)  # wrong
nn.LinearLayer(3, 4)  # wrong

# Functions
F.relu(3)  # wrong
F.relu("x")  # wrong
F.reluu(x)  # wrong
F.linear(x)  # wrong
F.conv2d(x, x, padding=1.5)  # wrong
F.softmax(x, dim="1")  # wrong
F.cross_entropy(x)  # wrong
F.cross_entropy(x, [1, 2])  # wrong
F.cross_entropy(x, x, reduction=1)  # wrong
F.dropout(x, "0.5")  # wrong
F.dropout(x, training=1.5)  # wrong
F.pad(x, 3)  # wrong
F.interpolate(x, mode=2)  # wrong
F.layer_norm(x, "3")  # wrong
F.mse_loss(x, 3)  # wrong
F.one_hot([1, 2])  # wrong
F.max_pool2d(x)  # wrong
F.embedding(x)  # wrong
F.normalize(x, axis=1)  # wrong

# Results
a: int = F.relu(x)  # wrong
b: str = tensora.zeros(2)  # wrong
c: Tensor = nn.Linear(2, 3)  # wrong
d: list[int] = nn.Linear(2, 3).weight  # wrong
e: float = nn.Linear(2, 3).in_features.real.numerator.bit_count  # wrong
F.relu(x).shapee  # wrong
x.no_such_method()  # wrong
nn.Linear(2, 3).forwardd(x)  # wrong
nn.Linear(2, 3).forward("x")  # wrong
nn.Linear(2, 3).to(tensora.float32).paramters()  # wrong
tensora.randnn(3)  # wrong
tensora.optim.Adamm([x])  # wrong
tensora.zeros(2, dtype="float")  # wrong
x.reshape("a")  # wrong
x.sum(dim="a")  # wrong


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.first = nn.Conv2d(1, 2, 3)  # wrong for mypy
        self.count = "many"  # wrong for mypy
        return x.shape[0]  # wrong

    def logits(self, x: Tensor) -> Tensor:
        return F.relu(x), x  # wrong

    def width(self) -> int:
        return self.first.weight  # wrong

    def size(self, x: Tensor) -> Tensor:
        return x.shape  # wrong

    def nothing(self, x: Tensor) -> Tensor:
        return None  # wrong


model = Net()
model.forward(3)  # wrong
model.train("yes")  # wrong
model.eval(True)  # wrong
model.load_state_dict("file.pt")  # wrong
model.register_buffer("name", 3)  # wrong
model.register_parameter("name", tensora.zeros(2))  # wrong
model.add_module("name", 3)  # wrong
model.apply(3)  # wrong
model.no_such_layer(x)  # wrong
names: list[int] = model.parameters()  # wrong
count: int = next(model.parameters())  # wrong

# Optimizers and schedulers
tensora.optim.SGD(3)  # wrong
tensora.optim.SGD(model.parameters(), lr="0.1")  # wrong
tensora.optim.SGD(model.parameters(), learning_rate=0.1)  # wrong
tensora.optim.SGD(model, lr=0.1)  # wrong
tensora.optim.Adam(model.parameters(), betas=0.9)  # wrong
tensora.optim.Adam(model.parameters(), amsgrad="yes")  # wrong
tensora.optim.AdamW()  # wrong
optimizer = tensora.optim.AdamW(model.parameters())
optimizer.step("closure")  # wrong
optimizer.stepp()  # wrong
optimizer.zero_grad(set_to_none="yes")  # wrong
optimizer.add_param_group([1])  # wrong
StepLR(optimizer)  # wrong
StepLR(optimizer, step_size="1")  # wrong
StepLR(model, 3)  # wrong
CosineAnnealingLR(optimizer, T_maxx=3)  # wrong
rates: str = StepLR(optimizer, 1).get_last_lr()  # wrong
nn.utils.clip_grad_norm_(model.parameters(), "1")  # wrong
nn.utils.clip_grad_norm_(3, 1.0)  # wrong
nn.init.normal_("x")  # wrong
nn.init.kaiming_uniform_(x, mode=3)  # wrong
