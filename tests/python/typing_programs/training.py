"""A correct program: optimizers, schedulers, data and the rest of a training run."""
from typing import Any, Iterable

import tensora
import tensora as torch
from tensora import Tensor, nn, optim
from tensora.optim import AdamW, lr_scheduler
from tensora.optim.lr_scheduler import LambdaLR, OneCycleLR
from tensora.optim.swa_utils import SWALR, AveragedModel, get_ema_avg_fn
from tensora.utils.data import DataLoader, Dataset, TensorDataset

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
no_decay = [p for n, p in model.named_parameters() if "bias" in n]
optimizers: list[optim.Optimizer] = [
    optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4),
    optim.SGD([{"params": no_decay, "weight_decay": 0.0}, {"params": model[0].parameters(), "lr": 1e-3}], lr=0.1),
    optim.SGD(list(model.parameters()), 0.1), optim.SGD([tensora.zeros(2, requires_grad=True)], lr=1),
    optim.SGD(model.named_parameters(), lr=0.1),
    optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, amsgrad=True, fused=None, foreach=False),
    optim.Adam(filter(lambda p: p.requires_grad, model.parameters())),
    AdamW([dict(params=no_decay, weight_decay=0), dict(params=model[2].weight)], lr=torch.tensor(1e-3)),
    optim.RMSprop(model.parameters(), alpha=0.9, centered=True), optim.Adagrad(model.parameters()),
    optim.Adadelta(model.parameters(), rho=0.95), optim.NAdam(model.parameters()), optim.RAdam(model.parameters()),
    optim.Adamax(model.parameters()), optim.ASGD(model.parameters()), optim.Rprop(model.parameters(), etas=(0.5, 1.2)),
    optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe"), optim.Adafactor(model.parameters()),
    optim.Lion(model.parameters()), optim.Muon([model[0].weight]),
]
optimizer = optimizers[0]
schedulers: list[lr_scheduler.LRScheduler] = [
    lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1), lr_scheduler.MultiStepLR(optimizer, [30, 80]),
    lr_scheduler.MultiStepLR(optimizer, milestones=(3, 8)), lr_scheduler.ExponentialLR(optimizer, 0.9),
    lr_scheduler.CosineAnnealingLR(optimizer, T_max=10, eta_min=1e-6),
    lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=5, T_mult=2),
    LambdaLR(optimizer, lr_lambda=lambda epoch: 0.95 ** epoch), LambdaLR(optimizer, [lambda epoch: 1.0]),
    OneCycleLR(optimizer, max_lr=0.1, total_steps=100), OneCycleLR(optimizer, [0.1, 0.2], epochs=3, steps_per_epoch=4),
    lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=4), lr_scheduler.PolynomialLR(optimizer, 4),
    lr_scheduler.CyclicLR(optimizer, base_lr=0.01, max_lr=0.1, mode="triangular2"), SWALR(optimizer, swa_lr=0.05),
    lr_scheduler.SequentialLR(optimizer, [lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 1)],
                              milestones=[2]),
]
plateau = lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=3)
plateau.step(0.5)
plateau.step(tensora.tensor(0.5))


class Rows(Dataset):
    def __init__(self, count: int) -> None:
        self.rows = tensora.randn(count, 4)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.rows[index], index % 2


class Trainer:
    def __init__(self, net: nn.Module, loader: Iterable[Any], lr: float) -> None:
        self.net, self.loader = net, loader
        self.optimizer = optim.AdamW(net.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)

    def train(self) -> float:
        self.net.train()
        total = 0.0
        for inputs, targets in self.loader:
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = self.criterion(self.net(inputs), targets)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            total += loss.item() + norm.item()
        return total / 2

    @torch.no_grad()
    def evaluate(self) -> float:
        self.net.eval()
        correct: int = 0
        for inputs, targets in self.loader:
            correct += int((self.net(inputs).argmax(dim=1) == targets).sum().item())
        return correct / 10


loader = DataLoader(Rows(10), batch_size=4, shuffle=True, num_workers=0, drop_last=True)
trainer = Trainer(model, loader, lr=1e-3)
print(trainer.train(), trainer.evaluate())
other = DataLoader(TensorDataset(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)), batch_size=2)


def closure() -> Tensor:
    optimizer.zero_grad()
    loss = model(torch.ones(1, 4)).sum()
    loss.backward()
    return loss


optimizer.step()
optimizer.step(closure)
for group in optimizer.param_groups:
    group["lr"] = 0.1
rates: list[float] = schedulers[0].get_last_lr()
for scheduler in schedulers:
    scheduler.step()
checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": schedulers[0].state_dict()}
torch.save(checkpoint, "checkpoint.pt")
loaded = torch.load("checkpoint.pt", map_location="cpu", weights_only=True)
model.load_state_dict(loaded["model"])
optimizer.load_state_dict(loaded["optimizer"])
average = AveragedModel(model, avg_fn=get_ema_avg_fn(0.99))
average.update_parameters(model)
x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
y = x.view(-1).unsqueeze(0).expand(2, -1).permute(1, 0) @ torch.eye(2)
z = torch.cat([x, x], dim=0).sum(dim=1, keepdim=True).mean().item()
values, indices = torch.topk(x, k=2, dim=-1)
top = x.max(dim=1).values + x.max(1)[0]
mask = (x > 0.5) & (x < 2) | ~(x == 1)
x[mask] = 0
x[:, 0], x[..., 1:] = 1.0, 2
picked = torch.where(mask, x, torch.zeros_like(x)) + torch.stack([x[0], x[1]]) + x.softmax(-1) + x.clamp(min=0)
samples = torch.multinomial(torch.softmax(x, dim=-1), num_samples=1)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
moved = x.to(device).to(torch.float16).cpu().numpy()
gradients = torch.autograd.grad(x.sum(), [x], create_graph=True, allow_unused=True)
print(z, y.shape, values, indices, top, picked, samples, moved, gradients, torch.__version__, len(x), x.dtype, 2 ** x, -x)
print(torch.randint(0, 10, (2, 3)), torch.randn(2, 3, device=device), torch.full((2,), 3.0), torch.linspace(0, 1, steps=5))
torch.manual_seed(0)
assert isinstance(model, nn.Module) and isinstance(model[0], nn.Linear) and isinstance(x, torch.Tensor)
