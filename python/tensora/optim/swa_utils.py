"""Averages of weights."""
import copy

from .. import _C
from .._modes import no_grad
from ..nn.modules.module import Module


def get_ema_multi_avg_fn(decay=0.999):
    return get_ema_avg_fn(decay)


def get_ema_avg_fn(decay=0.999):
    def average(averaged, current, count):
        return decay * averaged + (1 - decay) * current
    return average


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's over time."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, device=device))
        self.avg_fn, self.use_buffers = avg_fn or multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model):
        """Takes the model as it is now into the averages."""
        count = int(self.n_averaged)
        pairs = list(zip(self.module.parameters(), model.parameters()))
        for own, current in pairs:
            current = current.detach().to(own.device)
            if count == 0:
                own.copy_(current)
            elif self.avg_fn is None:
                own.add_((current - own) / (count + 1))
            else:
                own.copy_(self.avg_fn(own, current, count))
        for own, current in zip(self.module.buffers(), model.buffers()):
            own.copy_(current.detach())
        self.n_averaged.add_(1)


@no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of batch norms anew."""
    norms = [m for m in model.modules() if hasattr(m, "reset_running_stats")]
    for norm in norms:
        norm.reset_running_stats()
    kept = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.momentum = None
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch.to(device) if device is not None else batch)
    for norm, momentum in zip(norms, kept):
        norm.momentum = momentum
    model.train(was_training)
