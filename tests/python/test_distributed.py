"""Programs of several processes, started as torchrun starts them and by multiprocessing.spawn."""
import json
import os
import subprocess
import sys
import time

import tensora

SEARCH = os.path.dirname(os.path.dirname(tensora.__file__))


def start(tmp_path, text, *launcher):
    """Runs a program; its last line is JSON."""
    script = tmp_path / "program.py"
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": SEARCH, "TENSORA_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *launcher, str(script)], env=environment, capture_output=True, text=True,
                          timeout=120, cwd=tmp_path)


def ranks(count):
    return ("-m", "tensora.distributed.run", "--nproc_per_node", str(count))


def result(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


COLLECTIVES = """
import json, tensora as torch, tensora.distributed as dist
dist.init_process_group("gloo")
r, n, out = dist.get_rank(), dist.get_world_size(), {}
x = (torch.arange(6.).view(2, 3) + r).t()
dist.all_reduce(x)
out["strided sum"] = x.tolist()
x = torch.tensor([1 + 2j * r])
dist.all_reduce(x, op=dist.ReduceOp.SUM)
out["complex"] = [x.real.item(), x.imag.item()]
x = torch.tensor([r + 1.])
work = dist.all_reduce(x, op=dist.ReduceOp.PRODUCT, async_op=True)
assert work.wait() and work.is_completed()
out["product"] = x.item()
x = torch.full((2,), r)
dist.broadcast(x, 1)
out["broadcast"] = x.tolist()
parts = [torch.zeros(2, 2) for _ in range(n)]
dist.all_gather(parts, torch.full((2, 2), float(r)))
out["all_gather"] = [part.sum().item() for part in parts]
places = [torch.zeros(1) for _ in range(n)] if r == 2 else None
dist.gather(torch.tensor([r + 5.]), places, dst=2)
dist.broadcast_object_list(shared := [places and [p.item() for p in places]], src=2)
out["gather"] = shared[0]
x = torch.zeros(1)
dist.scatter(x, [torch.tensor([10. * i]) for i in range(n)] if r == 0 else None, src=0)
dist.all_gather_object(every := [None] * n, x.item())
out["scatter"] = every
x = torch.zeros(2)
dist.reduce_scatter(x, [torch.full((2,), float(i + r)) for i in range(n)])
dist.all_gather_object(every := [None] * n, x.tolist())
out["reduce_scatter"] = every
got = torch.zeros(r + 1)  # rank s sends r + 1 rows to rank r
dist.all_to_all_single(torch.zeros(n * (r + 1)), torch.arange(6.), [r + 1] * n, [1, 2, 3])
outs = [torch.zeros(r + 1) for _ in range(n)]
dist.all_to_all(outs, [torch.full((i + 1,), float(r)) for i in range(n)])
dist.all_gather_object(every := [None] * n, [t.tolist() for t in outs])
out["all_to_all"] = every[1]
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.tensor([float(r)]), (r + 1) % n),
                                dist.P2POp(dist.irecv, got := torch.zeros(1), (r - 1) % n)])
[work.wait() for work in works]
dist.all_gather_object(every := [None] * n, got.item())
out["ring"] = every
pair = dist.new_group([2, 0])
assert dist.get_rank(pair) == (-1 if r == 1 else r // 2)
if r != 1:
    x = torch.tensor([1.])
    dist.all_reduce(x, group=pair)
    assert x.item() == 2 and dist.get_process_group_ranks(pair) == [0, 2]
for wrong, kind in ((lambda: dist.all_reduce(x, op=dist.ReduceOp.BXOR), NotImplementedError),
                    (lambda: dist.broadcast(x, 7), ValueError), (lambda: dist.send(x, r), ValueError),
                    (lambda: dist.send(x, 0, tag=3), NotImplementedError), (lambda: dist.all_gather([x], x), ValueError),
                    (lambda: dist.all_reduce(3), TypeError)):
    try:
        wrong()
    except kind as error:
        assert "distributed." in str(error), error
    else:
        raise SystemExit("no error")
dist.barrier()
if r == 0:
    print(json.dumps(out))
dist.destroy_process_group()
assert not dist.is_initialized()
"""


def test_collectives(tmp_path):
    out = result(start(tmp_path, COLLECTIVES, *ranks(3)))
    assert out == {"strided sum": [[3, 12], [6, 15], [9, 18]], "complex": [3, 6], "product": 6, "broadcast": [1, 1],
                   "all_gather": [0, 4, 8], "gather": [5, 6, 7], "scatter": [0, 10, 20],
                   "reduce_scatter": [[3, 3], [6, 6], [9, 9]], "all_to_all": [[0, 0], [1, 1], [2, 2]], "ring": [2, 0, 1]}


TRAINING = """
import json, sys, tensora as torch, tensora.distributed as dist
from tensora import nn
from tensora.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group()
r, n = dist.get_rank(), dist.get_world_size()
torch.manual_seed(r)  # the ranks begin with different parameters: all get those of rank 0
net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
net[0].unused = nn.Linear(2, 2)
model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net))
torch.manual_seed(9)
data = TensorDataset(torch.randn(16, 3), torch.randn(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sampler, losses = DistributedSampler(data, shuffle=False), []
assert len(sampler) == 16 // n
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=4 // n, sampler=sampler):
        optimizer.zero_grad()
        with model.no_sync():
            (0.5 * nn.functional.mse_loss(model(x), y)).backward()
        loss = nn.functional.mse_loss(model(x), y)
        (0.5 * loss).backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
        losses.append(loss.item() / n)
assert net[0].unused.weight.grad is None
every = [None] * n
dist.all_gather_object(every, [p.tolist() for p in net.parameters()])
assert all(parameters == every[0] for parameters in every)
if r == 0:
    print(json.dumps([losses, net[1].running_mean.tolist(), net[1].running_var.tolist()]))
"""


def test_data_parallel_training_equals_one_process(tmp_path):
    alone = result(start(tmp_path, TRAINING))
    shared = result(start(tmp_path, TRAINING, *ranks(2)))
    for a, b in zip(alone, shared):
        assert tensora.allclose(tensora.tensor(a), tensora.tensor(b), rtol=1e-4, atol=1e-5), (alone, shared)


BUFFERS = """
import json, tensora as torch, tensora.distributed as dist
dist.init_process_group()
r = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(1, momentum=1.0))
seen = []
def forward(value):
    model(torch.tensor([[value + r], [value + r]]))
    every = [None] * 2
    dist.all_gather_object(every, model.module.running_mean.item())
    seen.append(every)
forward(1.0)
with model.no_sync():
    forward(2.0)
forward(3.0)
model.eval()
with torch.no_grad():
    forward(4.0)
    forward(5.0)
if r == 0:
    print(json.dumps(seen))
"""


def test_evaluation_has_the_buffers_of_rank_0_on_all_ranks(tmp_path):
    out = result(start(tmp_path, BUFFERS, *ranks(2)))
    assert out == [[1, 2], [2, 3], [3, 4], [3, 3], [3, 3]]


SPAWNED = """
import sys, tensora as torch, tensora.distributed as dist, tensora.multiprocessing as mp

def work(rank, method, file):
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=2)
    x = torch.tensor([rank + 1.])
    dist.all_reduce(x)
    if rank == 1:
        open(file, "w").write(str(x.item()))
    dist.destroy_process_group()

if __name__ == "__main__":
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(work, (f"tcp://localhost:{port}", "a"), nprocs=2)
    mp.spawn(work, ("file:///" + sys.argv[0][1:] + ".meeting", "b"), nprocs=2)
    print(float(open("a").read()) + float(open("b").read()))
"""


def test_spawned_processes_meet_by_address_and_by_file(tmp_path):
    assert result(start(tmp_path, SPAWNED)) == 6


def test_a_rank_that_fails_ends_the_others(tmp_path):
    done = start(tmp_path, "import tensora as torch, tensora.distributed as dist\ndist.init_process_group()\n"
                 "x = torch.ones(2)\ndist.all_reduce(x)\n"
                 "if dist.get_rank() == 1:\n    raise SystemExit(7)\ndist.all_reduce(x)\n", *ranks(2))
    assert done.returncode != 0 and "rank" in done.stderr, done.stderr
    done = start(tmp_path, "import tensora as torch, tensora.distributed as dist\ndist.init_process_group()\n"
                 "dist.all_reduce(torch.ones(2 + dist.get_rank()))\n", *ranks(2))
    assert done.returncode != 0 and "called different things" in done.stderr, done.stderr


def test_a_rank_that_fails_ends_those_before_it(tmp_path):
    done = start(tmp_path, "import os, sys, time\nif os.environ['RANK'] == '1':\n    sys.exit(3)\ntime.sleep(100)\n", *ranks(2))
    assert done.returncode == 3 and "rank 1 failed with exit status 3" in done.stderr, done.stderr


def test_ranks_end_with_a_launcher_that_is_killed(tmp_path):
    script = tmp_path / "program.py"
    # A line in one piece: both ranks write to one pipe.
    script.write_text("import os, time\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(100)\n")
    launcher = subprocess.Popen([sys.executable, *ranks(2), str(script)], env={**os.environ, "PYTHONPATH": SEARCH},
                                stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    started = [int(launcher.stdout.readline()) for _ in range(2)]
    launcher.kill()
    launcher.wait()
    until = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{rank}") for rank in started) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [rank for rank in started if os.path.exists(f"/proc/{rank}")]


def test_ranks_get_time_to_end_when_the_launcher_is_terminated(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import os, signal, sys, time\n"
                      "def end(number, frame):\n"
                      "    open(f'ended{os.environ[\"RANK\"]}', 'w').close()\n"
                      "    sys.exit(0)\n"
                      "signal.signal(signal.SIGTERM, end)\n"
                      "os.write(1, b'ready\\n')\ntime.sleep(100)\n")
    launcher = subprocess.Popen([sys.executable, *ranks(2), str(script)], env={**os.environ, "PYTHONPATH": SEARCH},
                                stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert [launcher.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    launcher.terminate()
    assert launcher.wait(60) == 128 + 15
    assert sorted(path.name for path in tmp_path.glob("ended*")) == ["ended0", "ended1"]
