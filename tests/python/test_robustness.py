"""What programs do to a package: end in the middle of something, fork, press Ctrl-C, use threads, raise anywhere."""
import os
import subprocess
import sys
import threading

import pytest

import tensora
from tensora import nn
from tensora.utils.data import DataLoader, Dataset, IterableDataset

SEARCH = os.path.dirname(os.path.dirname(tensora.__file__))


def run(program):
    """A new interpreter; what it printed."""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": SEARCH},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout.split()


# ---- the end of the interpreter -----------------------------------------------------------------

@pytest.mark.parametrize("work", [
    "matrix @ matrix + 1",
    "(leaf * 2).sum().backward()",
    "x = tensora.ones(20_000, requires_grad=True); x.register_hook(lambda g: sum(range(1000)) * g); (x * x).sum().backward()",
    "Slow.apply(leaf).sum().backward()"])
def test_exits_while_threads_compute(work):
    """See Note [Threads at the end] in python/src/object.h."""
    run(f"""
import tensora, threading, time
leaf, matrix = tensora.ones(100_000, requires_grad=True), tensora.randn(200, 200)
class Slow(tensora.autograd.Function):
    @staticmethod
    def forward(context, x):
        sum(range(1000))
        return x * 2
    @staticmethod
    def backward(context, gradient):
        sum(range(1000))
        return gradient * 2
def work():
    while True:
        {work}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""")


def test_exits_in_the_middle_of_loaders():
    run("""
import tensora
from tensora.utils.data import DataLoader, Dataset, IterableDataset
class Items(Dataset):
    def __len__(self): return 10_000
    def __getitem__(self, i): return tensora.ones(20_000) * i
class Stream(IterableDataset):
    def __iter__(self):
        while True: yield tensora.ones(20_000)
loaders = [iter(DataLoader(data, batch_size=8, num_workers=2)) for data in (Items(), Stream())]
for loader in loaders: next(loader)
""")


# ---- fork ---------------------------------------------------------------------------------------

def test_children_compute_while_a_thread_of_the_parent_does():
    assert run("""
import multiprocessing, tensora, threading
context = multiprocessing.get_context("fork")
model, x = tensora.nn.Linear(200, 200), tensora.randn(200, 200)
model(x).sum().backward()
def child(results):
    model.zero_grad()
    model(x).sum().backward()
    results.put(round(model.bias.grad.sum().item()))
results, stop = context.SimpleQueue(), threading.Event()
def busy():
    while not stop.is_set(): x @ x
thread = threading.Thread(target=busy); thread.start()
children = [context.Process(target=child, args=(results,)) for _ in range(4)]
for process in children: process.start()
for process in children: process.join(60)
stop.set(); thread.join()
print(*[process.exitcode for process in children], *[results.get() for _ in children])
""") == ["0"] * 4 + ["40000"] * 4


# ---- Ctrl-C -------------------------------------------------------------------------------------

@pytest.mark.parametrize("work", [
    "while True: x.mm(x)",
    "while True: (x * leaf).sum().backward()",
    "for _ in DataLoader(Slow()): pass",
    "for _ in DataLoader(Slow(), num_workers=2): pass",
    "leaf.register_hook(lambda g: time.sleep(60)); leaf.sum().backward()",
    "optim.SGD([leaf], 1).step(lambda: time.sleep(60))"])
def test_keyboard_interrupt(work):
    assert run(f"""
import os, signal, tensora, threading, time
from tensora import optim
from tensora.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i): return time.sleep(0.1) or i
x = tensora.randn(300, 300)
leaf = tensora.ones(300, requires_grad=True)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", (x + 1).numel())
""") == ["interrupted", "90000"]


# ---- threads ------------------------------------------------------------------------------------

def test_tensors_cross_threads():
    layer, shared, errors = nn.Linear(64, 64), [tensora.ones(5000, requires_grad=True) for _ in range(4)], []

    def work(number):
        try:
            for i in range(50):
                layer(tensora.ones(80, 64)).sum().backward()
                at = (number + i) % len(shared)
                (shared[at] * 2).sum().backward()
                shared[at] = tensora.ones(5000, requires_grad=True)
                shared[at].tag = [shared[at]]  # a cycle, for whichever thread collects it
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert layer.bias.grad.tolist() == [4 * 50 * 80] * 64


def test_backward_on_another_thread_and_modes_of_ones_own():
    x, seen = tensora.ones(3, requires_grad=True), []
    y = (x * 3).sum()
    with tensora.no_grad():
        thread = threading.Thread(target=lambda: (y.backward(), seen.append((x * 2).requires_grad)))
        thread.start()
        thread.join()
    assert x.grad.tolist() == [3, 3, 3] and seen == [True]


# ---- exceptions of the program -------------------------------------------------------------------

class Mine(Exception):
    pass


class Raises(tensora.autograd.Function):
    @staticmethod
    def forward(context, x, where):
        context.where = where
        if where == "forward":
            raise Mine(where)
        return x * 1

    @staticmethod
    def backward(context, gradient):
        raise Mine(context.where)


def refuse(*_):
    raise Mine("refused")


def in_hook(x):
    x.register_hook(refuse)
    (x * 2).sum().backward()


def in_leaf_hook(x):
    x.register_post_accumulate_grad_hook(refuse)
    (x * 2).sum().backward()


def in_module(x, register):
    layer = nn.Linear(2, 2)
    getattr(layer, register)(refuse)
    layer(x).sum().backward()


@pytest.mark.parametrize("call", [
    in_hook, in_leaf_hook,
    lambda x: Raises.apply(x, "forward"),
    lambda x: Raises.apply(x, "backward").sum().backward(),
    lambda x: in_module(x, "register_forward_pre_hook"),
    lambda x: in_module(x, "register_forward_hook"),
    lambda x: in_module(x, "register_full_backward_hook"),
    lambda x: tensora.optim.LBFGS([x]).step(refuse),
    lambda x: tensora.utils.checkpoint.checkpoint(refuse, x, use_reentrant=False)])
def test_exceptions_come_out_and_leave_everything_usable(call):
    x = tensora.ones(2, requires_grad=True)
    with pytest.raises(Mine) as caught:
        call(x)
    assert caught.value.__traceback__ is not None
    assert tensora.is_grad_enabled()
    y = tensora.ones(2, requires_grad=True)
    (y * y).sum().backward()
    assert y.grad.tolist() == [2, 2]


class Bad(Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            raise self.error
        return i


class BadStream(IterableDataset):
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield 1
        raise self.error


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("kind", [Bad, BadStream])
def test_exceptions_of_datasets(kind, workers):
    with pytest.raises(Mine, match="here"):
        list(DataLoader(kind(Mine("here")), batch_size=2, num_workers=workers))


def test_loaders_time_out_and_hand_on_what_a_worker_cannot_begin():
    class Stuck(IterableDataset):
        def __iter__(self):
            threading.Event().wait(20)
            yield 1
    with pytest.raises(RuntimeError, match="timed out after 0.1 seconds"):
        list(DataLoader(Stuck(), num_workers=1, timeout=0.1))
    with pytest.raises(Mine):
        list(DataLoader([1, 2], num_workers=2, worker_init_fn=refuse))
    assert [batch for batch in DataLoader([1, 2, 3], collate_fn=lambda items: None)] == [None] * 3

    class Numbers(IterableDataset):
        def __iter__(self):
            return iter(range(3))
    assert [batch for batch in DataLoader(Numbers(), num_workers=1, collate_fn=lambda items: None)] == [None] * 3


# ---- lists within lists ---------------------------------------------------------------------------

@pytest.mark.parametrize("work", [
    "tensora.cat(nested)", "tensora.stack(nested)", "tensora.zeros(nested)", "tensora.save(nested, '/dev/null')", "tensora.tensor(nested)",
    "optimizer.load_state_dict({**optimizer.state_dict(), 'state': {0: {'exp_avg': nested}}})",
    "optimizer.state.__setitem__(leaf, {'exp_avg': nested})", "tensora.serialization.save_safetensors({'x': {'x': nested}}, '/dev/null')",
    "tensora.optim.SGD([leaf], lr=0.1, momentum=nested)"])
def test_endless_lists_are_refused(work):
    assert run(f"""
import tensora
leaf = tensora.ones(2, requires_grad=True)
optimizer = tensora.optim.Adam([leaf])
endless, deep = [], []
endless.append(endless)
for _ in range(300_000): deep = [deep]
for nested in (endless, deep):
    try:
        {work}
    except (RecursionError, ValueError, TypeError, RuntimeError):
        print("refused")
""") == ["refused", "refused"]
