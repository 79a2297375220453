"""tensora.cuda: with a GPU it works, without one everything says so as PyTorch does."""
import pytest

import tensora

needs_gpu = pytest.mark.skipif(not tensora.cuda.is_available(), reason="no GPU: " + tensora.cuda.unavailable_reason())


@pytest.mark.skipif(tensora.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu():
    cuda = tensora.cuda
    assert cuda.device_count() == 0 and not cuda.is_available() and cuda.unavailable_reason()
    assert cuda.memory_allocated() == 0 and cuda.memory_stats() == {}
    assert not cuda.is_current_stream_capturing()
    cuda.empty_cache()
    for make in (cuda.Stream, cuda.Event, cuda.CUDAGraph, cuda.current_stream, cuda.get_device_name):
        with pytest.raises(RuntimeError, match="cuda"):
            make()
    with pytest.raises(RuntimeError):
        tensora.ones(2).cuda()
    with cuda.stream(None):
        pass
    x = tensora.ones(2)
    assert x.pin_memory() is x and not x.is_pinned()
    assert tensora.accelerator.current_accelerator() is None


@needs_gpu
def test_streams_and_events():
    cuda = tensora.cuda
    side, start, end = cuda.Stream(), cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    x = tensora.randn(512, 512, device="cuda")
    start.record()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        assert cuda.current_stream() == side
        y = x @ x
    assert cuda.current_stream() == cuda.default_stream()
    cuda.current_stream().wait_stream(side)
    y.record_stream(cuda.current_stream())
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0 and side.query()
    tensora.testing.assert_close(y, x @ x)


@needs_gpu
def test_graphs():
    cuda = tensora.cuda
    x = tensora.ones(16, device="cuda")
    x * 2 + 1
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = x * 2 + 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [11.] * 16 and graph.node_count > 0
    with pytest.raises(RuntimeError), cuda.graph(cuda.CUDAGraph()):
        (x * 2).tolist()
    assert not cuda.is_current_stream_capturing()
    net = tensora.nn.Linear(8, 4).cuda()
    sample = tensora.randn(3, 8, device="cuda", requires_grad=True)
    expected = net(sample)
    expected.sum().backward()
    wanted = net.weight.grad.clone()
    net.zero_grad()
    graphed = cuda.make_graphed_callables(net, (sample.detach().clone().requires_grad_(),))
    result = graphed(sample)
    tensora.testing.assert_close(result, expected)
    result.sum().backward()
    tensora.testing.assert_close(net.weight.grad, wanted)


@needs_gpu
def test_pinned_copies_and_memory():
    host = tensora.randn(1000).pin_memory()
    assert host.is_pinned()
    there = host.to("cuda", non_blocking=True)
    tensora.cuda.synchronize()
    assert (there.cpu() == host).all()
    assert tensora.cuda.memory_allocated() > 0
    assert tensora.cuda.memory_stats()["allocated_bytes.all.current"] > 0
    assert tensora.cuda.get_device_capability()[0] >= 7
