"""Programs that use libraries of probability, Gaussian processes, flows and differential equations."""
import numpy

from . import filled, numbers, perceptron, program


@program
def gpytorch_exact_regression():
    import gpytorch
    import torch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))
    x = torch.linspace(0, 1, 20)
    y, likelihood = torch.sin(x * 6.28), gpytorch.likelihoods.GaussianLikelihood()
    model, losses = Model(x, y, likelihood), []
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(8):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval(), likelihood.eval()
    with torch.no_grad():
        ahead = likelihood(model(torch.linspace(0, 1, 7)))
    return {"losses": numpy.array(losses), "mean": ahead.mean, "variance": ahead.variance}


@program
def gpytorch_kernels():
    import gpytorch
    x = numbers((6, 3))
    kinds = {"matern": gpytorch.kernels.MaternKernel(nu=2.5), "periodic": gpytorch.kernels.PeriodicKernel(),
             "linear": gpytorch.kernels.LinearKernel(), "rq": gpytorch.kernels.RQKernel(),
             "sum": gpytorch.kernels.RBFKernel(ard_num_dims=3) + gpytorch.kernels.PolynomialKernel(power=2)}
    return {name: kernel(x).to_dense() for name, kernel in kinds.items()}


@program
def linear_operator_solves():
    import linear_operator
    import torch
    a = numbers((6, 6))
    matrix = linear_operator.to_linear_operator(a @ a.T + 6 * torch.eye(6))
    diagonal = linear_operator.operators.DiagLinearOperator(torch.arange(1.0, 7.0))
    return {"solve": (matrix + diagonal).solve(numbers((6, 2), 3)), "logdet": matrix.logdet(),
            "root": matrix.cholesky().to_dense(), "low_rank": matrix.pivoted_cholesky(rank=3)}


@program
def botorch_acquisition():
    import torch
    from botorch.acquisition import ExpectedImprovement, UpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood
    x = torch.tensor(numpy.random.default_rng(2).random((10, 2)))
    y = (x - 0.4).square().sum(-1, keepdim=True).neg()
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    at = torch.tensor(numpy.random.default_rng(3).random((5, 1, 2)))
    return {"improvement": ExpectedImprovement(model, best_f=y.max())(at), "bound": UpperConfidenceBound(model, beta=0.2)(at)}


@program
def pyro_variational_inference():
    import pyro
    import pyro.distributions as dist
    import torch
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    data = numbers((20,)) + 2

    def model():
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        with pyro.plate("data", 20):
            pyro.sample("x", dist.Normal(mean, 1.0), obs=data)

    def guide():
        location = pyro.param("location", torch.tensor(0.0))
        scale = pyro.param("scale", torch.tensor(1.0), constraint=dist.constraints.positive)
        pyro.sample("mean", dist.Normal(location, scale))
    svi = pyro.infer.SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), loss=pyro.infer.Trace_ELBO())
    losses = [svi.step() for _ in range(20)]
    return {"losses": numpy.array(losses), "location": pyro.param("location"), "scale": pyro.param("scale")}


@program
def pyro_hamiltonian_monte_carlo():
    import pyro
    import pyro.distributions as dist
    pyro.set_rng_seed(0)
    data = numbers((20,)) + 2

    def model():
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        pyro.sample("x", dist.Normal(mean, 1.0).expand([20]).to_event(1), obs=data)
    kernel = pyro.infer.HMC(model, step_size=0.05, num_steps=4, adapt_step_size=False)
    mcmc = pyro.infer.MCMC(kernel, num_samples=10, warmup_steps=2, disable_progbar=True)
    mcmc.run()
    return {"samples": mcmc.get_samples()["mean"]}


@program
def pyro_enumeration():
    import pyro
    import pyro.distributions as dist
    import torch
    pyro.clear_param_store()
    pyro.set_rng_seed(0)

    @pyro.infer.config_enumerate
    def model():
        weights = pyro.param("weights", torch.ones(2) / 2, constraint=dist.constraints.simplex)
        with pyro.plate("data", 6):
            chosen = pyro.sample("chosen", dist.Categorical(weights))
            pyro.sample("x", dist.Normal(torch.tensor([-1.0, 1.0])[chosen], 0.5), obs=numbers((6,)))
    loss = pyro.infer.TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(model, lambda: None)
    return {"loss": loss}


@program
def zuko_flows():
    import torch
    import zuko
    results, x = {}, numbers((12, 3)) * 0.5
    for name, make in {"nsf": lambda: zuko.flows.NSF(3, transforms=2, hidden_features=[16]),
                       "maf": lambda: zuko.flows.MAF(3, transforms=2, hidden_features=[16]),
                       "nice": lambda: zuko.flows.NICE(3, transforms=2, hidden_features=[16])}.items():
        torch.manual_seed(0)
        flow = make()
        loss = -flow().log_prob(x).mean()
        loss.backward()
        results[name], results[f"{name}_sample"] = loss, flow().sample((4,))
    return results


@program
def nflows_autoregressive():
    import torch
    from nflows import distributions, flows, nn, transforms
    torch.manual_seed(0)
    flow = flows.Flow(transforms.CompositeTransform([
        transforms.ReversePermutation(3), transforms.MaskedAffineAutoregressiveTransform(3, 8),
        transforms.PiecewiseRationalQuadraticCouplingTransform(
            torch.tensor([1, 0, 1]), lambda i, o: nn.nets.ResidualNet(i, o, hidden_features=8),
            tails="linear", tail_bound=3.0)]), distributions.StandardNormal([3]))
    loss = -flow.log_prob(numbers((5, 3))).mean()
    loss.backward()
    return {"loss": loss, "sample": flow.sample(4)}


@program
def normflows_real_nvp():
    import normflows
    import torch
    torch.manual_seed(0)
    layers = []
    for _ in range(2):
        layers += [normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 8, 2], init_zeros=False)),
                   normflows.flows.Permute(2, mode="swap")]
    flow = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), layers)
    loss = flow.forward_kld(numbers((10, 2)))
    loss.backward()
    return {"loss": loss, "sample": flow.sample(4)[0]}


@program
def freia_invertible():
    import FrEIA.framework as framework
    import FrEIA.modules as modules
    import torch
    network = framework.SequenceINN(4)
    for _ in range(2):
        network.append(modules.AllInOneBlock, subnet_constructor=lambda i, o: torch.nn.Sequential(
            torch.nn.Linear(i, 8), torch.nn.ReLU(), torch.nn.Linear(8, o)), permute_soft=False)
    for name, parameter in network.named_parameters():
        if parameter.requires_grad and "subnet" in name:
            parameter.data = numbers(tuple(parameter.shape), len(name)) * 0.1
    z, jacobian = network(numbers((6, 4)))
    return {"z": z, "jacobian": jacobian, "back": network(z, rev=True)[0]}


def _field(net):
    import torch

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y) - y
    return Field()


@program
def torchdiffeq_odeint():
    import torch
    from torchdiffeq import odeint, odeint_adjoint
    net = filled(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))
    field, times = _field(net), torch.linspace(0, 1, 5)
    adjoint = odeint_adjoint(field, numbers((3, 2)), times, method="rk4")
    adjoint.sum().backward()
    return {"dopri5": odeint(field, numbers((3, 2)), times), "adjoint": adjoint, "grad": net[0].weight.grad}


@program
def torchdiffeq_methods():
    import torch
    from torchdiffeq import odeint, odeint_event
    field, times, y = _field(perceptron(2, 2)), torch.linspace(0, 1, 4), numbers((3, 2))
    results = {method: odeint(field, y, times, method=method)
               for method in ("euler", "midpoint", "bosh3", "dopri8", "explicit_adams", "implicit_adams", "adaptive_heun")}
    at, states = odeint_event(lambda t, y: -y, torch.tensor([1.0]), torch.tensor(0.0),
                              event_fn=lambda t, y: y[0] - 0.5, method="dopri5")
    return {**results, "event": at, "state": states[-1]}


@program
def torchsde_integral():
    import torch
    import torchsde

    class Equation(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.drift = perceptron(3, 3)

        def f(self, t, y):
            return self.drift(y)

        def g(self, t, y):
            return 0.3 * torch.ones_like(y)
    torch.manual_seed(0)
    equation, times = Equation(), torch.linspace(0, 1, 5)
    motion = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=7)
    path = torchsde.sdeint(equation, numbers((4, 3)), times, bm=motion, dt=0.1, method="euler")
    path.sum().backward()
    return {"path": path, "grad": equation.drift[0].weight.grad, "increment": motion(0.2, 0.6)}


@program
def torchcde_controlled():
    import torch
    import torchcde
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(numbers((2, 6, 3)))
    path, net = torchcde.CubicSpline(coefficients), perceptron(4, 12)

    class Field(torch.nn.Module):
        def forward(self, t, z):
            return net(z).view(2, 4, 3)
    return {"z": torchcde.cdeint(X=path, z0=numbers((2, 4), 3), func=Field(), t=path.interval, method="rk4",
                                 adjoint=False, options={"step_size": 0.5}),
            "spline": path.evaluate(torch.tensor(1.7)), "logsig": torchcde.linear_interpolation_coeffs(numbers((2, 6, 3)))}


@program
def distributions_of_torch():
    """What probabilistic libraries stand on."""
    import torch
    from torch import distributions as d
    x = numbers((5,)).abs() + 0.1
    mixture = d.MixtureSameFamily(d.Categorical(logits=numbers((3,))), d.Normal(numbers((3,), 3), torch.ones(3)))
    flow = d.TransformedDistribution(d.Normal(torch.zeros(5), torch.ones(5)),
                                     [d.AffineTransform(1.0, 2.0), d.ExpTransform()])
    return {"mixture": mixture.log_prob(x), "flow": flow.log_prob(x), "student": d.StudentT(3.0).log_prob(x),
            "kl": d.kl_divergence(d.Gamma(x, x), d.Gamma(2 * x, x)), "wishart": d.Wishart(
                torch.tensor(4.0), torch.eye(3)).log_prob(torch.eye(3) * 2), "lkj": d.LKJCholesky(3, 1.5).log_prob(torch.eye(3))}
