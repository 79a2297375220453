"""Programs that use libraries of graphs, molecules, operators, tensors and spiking neurons."""
import numpy

from . import filled, named, numbers, program


def _graph():
    """Ten nodes with eight features, and the edges between them."""
    import torch
    rng = numpy.random.default_rng(5)
    edges = torch.tensor(numpy.stack([rng.permutation(numpy.arange(30) % 10), rng.permutation(numpy.arange(30) % 10)]))
    return numbers((10, 8)), edges


def _convolution(kind, *args, **options):
    import torch_geometric.nn
    x, edges = _graph()
    layer = filled(getattr(torch_geometric.nn, kind)(8, *args, **options)).train()
    out = layer(x.requires_grad_(), edges)
    out.square().sum().backward()
    return {"out": out, "grad": x.grad}


for _kind, _args, _options in (("GCNConv", (6,), {}), ("GATv2Conv", (6,), dict(heads=2)), ("SAGEConv", (6,), {}),
                               ("TransformerConv", (6,), {})):
    named(f"torch_geometric_{_kind.lower()}", _convolution, _kind, *_args, **_options)


@program
def torch_geometric_data_and_pooling():
    import torch
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GIN, global_add_pool, global_max_pool, global_mean_pool
    from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected
    x, edges = _graph()
    batch = Batch.from_data_list([Data(x=x, edge_index=edges), Data(x=x[:6] * 2, edge_index=edges[:, :4] % 6)])
    hidden = filled(GIN(8, 16, num_layers=2))(batch.x, batch.edge_index)
    return {"mean": global_mean_pool(hidden, batch.batch), "max": global_max_pool(hidden, batch.batch),
            "add": global_add_pool(hidden, batch.batch), "dense": to_dense_adj(edges), "degree": degree(edges[0], 10),
            "undirected": to_undirected(edges), "loops": add_self_loops(edges)[0],
            "softmax": softmax(torch.arange(30.0) / 7, edges[1], num_nodes=10)}


@program
def torch_geometric_trained():
    import torch
    from torch_geometric.nn import GCN
    x, edges = _graph()
    model = filled(GCN(8, 16, num_layers=2, out_channels=3)).train()
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for _ in range(6):
        loss = torch.nn.functional.cross_entropy(model(x, edges), torch.arange(10) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": numpy.array(losses)}


@program
def e3nn_tensor_products():
    import torch
    from e3nn import o3
    irreps = o3.Irreps("4x0e + 2x1o + 1x2e")
    product = o3.FullyConnectedTensorProduct(irreps, irreps, irreps)
    with torch.no_grad():
        product.weight.copy_(numbers(tuple(product.weight.shape), 4))
    x, y = irreps.dim, numbers((5, 3))
    return {"product": product(numbers((5, x)), numbers((5, x), 3)),
            "harmonics": o3.spherical_harmonics([0, 1, 2], y, normalize=True), "wigner": o3.wigner_3j(1, 1, 2),
            "linear": filled(o3.Linear(irreps, irreps))(numbers((5, x)))}


@program
def egnn_layers():
    from egnn_pytorch import EGNN
    features, coordinates = filled(EGNN(dim=16))(numbers((1, 8, 16)), numbers((1, 8, 3), 3))
    return {"features": features, "coordinates": coordinates}


@program
def neuraloperator_fno():
    from neuralop.models import FNO
    import torch
    torch.manual_seed(0)
    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)
    out = model(numbers((2, 1, 16, 16)))
    out.square().mean().backward()
    return {"out": out, "grad": next(p.grad for p in model.parameters() if p.grad is not None and not p.grad.is_complex())}


@program
def tensorly_decompositions():
    import tensorly
    from tensorly.decomposition import parafac, tensor_train, tucker
    tensorly.set_backend("pytorch")
    x = numbers((5, 4, 3))
    return {"cp": tensorly.cp_to_tensor(parafac(x, rank=2, init="svd", n_iter_max=20)),
            "tucker": tensorly.tucker_to_tensor(tucker(x, rank=[2, 2, 2])),
            "train": tensorly.tt_to_tensor(tensor_train(x, rank=[1, 2, 2, 1]))}


@program
def snntorch_spikes():
    import snntorch
    from snntorch import surrogate
    neuron, x = snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid()), numbers((12, 3, 5)).requires_grad_()
    membrane, spikes = neuron.init_leaky(), []
    for row in x:
        spike, membrane = neuron(row, membrane)
        spikes.append(spike.sum() + membrane.sum())
    sum(spikes).backward()
    return {"membrane": membrane, "grad": x.grad}


@program
def pykan_network():
    from kan import KAN
    model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False)
    out = model(numbers((10, 2)).tanh())
    out.sum().backward()
    return {"out": out, "grad": model.act_fun[0].coef.grad}
