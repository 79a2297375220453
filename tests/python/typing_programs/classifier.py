"""A correct program: a model, its data and a loop."""
import tensora
from tensora import nn
import tensora.nn.functional as F
from tensora.utils.data import DataLoader, TensorDataset, Dataset, random_split


class Rows(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tensora.Tensor:
        return tensora.ones(2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x: tensora.Tensor) -> tensora.Tensor:
        return F.relu(self.layer(x))


model = Net()
optimizer = tensora.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(tensora.ones(4, 2), tensora.zeros(4).long()), batch_size=2, shuffle=True)
rows = DataLoader(Rows(), batch_size=2)
for epoch in range(2):
    for step, (images, labels) in enumerate(loader):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for batch in rows:
        print(batch.shape, len(rows))
with tensora.no_grad():
    y = model(tensora.ones(1, 2))
    print(y.item(), y + 1, 2 * y, y.to(tensora.float64), y.shape[0])
with tensora.inference_mode(), tensora.enable_grad(), tensora.set_grad_enabled(True):
    pass
with tensora.autocast("cpu", dtype=tensora.bfloat16):
    pass
with tensora.autograd.detect_anomaly():
    pass


@tensora.no_grad()
def evaluate(net: nn.Module) -> float:
    net.eval()
    return float(net(tensora.ones(1, 2)).sum())


tensora.save(model.state_dict(), "x.pt")
model.load_state_dict(tensora.load("x.pt"))
print(evaluate(model), tensora.randn(2, 3).mean(), tensora.arange(3), tensora.cuda.is_available())
for name, parameter in model.named_parameters():
    print(name, parameter.grad)
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scheduler = tensora.optim.lr_scheduler.StepLR(optimizer, 1)
scheduler.step()
train, test = random_split(Rows(), [2, 2])
device = tensora.device("cuda" if tensora.cuda.is_available() else "cpu")
model.to(device)
