"""e3nn: irreducible representations, spherical harmonics, tensor products as graphs of torch.fx, an equivariant network trained."""

import torch
from e3nn import o3
from e3nn.math import soft_one_hot_linspace
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate

PACKAGES = ["e3nn", "opt-einsum-fx", "sympy"]
TOLERANCE = (1e-4, 2e-5)


def representations():
    irreps = o3.Irreps("2x0e + 1x1o + 1x2e")
    rotation = o3.angles_to_matrix(*torch.tensor([0.3, 1.1, -0.7]))
    points = torch.tensor([[1.0, 0.0, 0.5], [0.2, -1.0, 0.3]])
    return {
        "irreps": [str(irreps), irreps.dim, str((irreps * irreps.count("1o")).simplify())],
        "wigner": o3.wigner_3j(1, 1, 2),
        "D": irreps.D_from_matrix(rotation),
        "harmonics": o3.spherical_harmonics([0, 1, 2, 3], points, True, normalization="component"),
        "angles": torch.stack(o3.xyz_to_angles(points)),
        "product": [str(each) for each in o3.Irrep("1o") * o3.Irrep("2e")],
    }


def products():
    torch.manual_seed(0)
    full = o3.FullyConnectedTensorProduct("3x0e + 2x1o", "0e + 1o", "2x0e + 2x1o + 1x2e")
    linear = o3.Linear("3x0e + 2x1o", "4x0e + 3x1o")
    norm = o3.Norm("3x0e + 2x1o")
    tensor = o3.FullTensorProduct("1x0e + 1x1o", "1x1o")
    x, y = torch.randn(5, 9, requires_grad=True), torch.randn(5, 4)
    out = full(x, y)
    out.square().sum().backward()
    rotation = o3.angles_to_matrix(*torch.tensor([0.3, 1.1, -0.7]))
    turned = full(x @ full.irreps_in1.D_from_matrix(rotation).T, y @ full.irreps_in2.D_from_matrix(rotation).T)
    apart = (turned - out @ full.irreps_out.D_from_matrix(rotation).T).abs().max()
    return {
        "full": out,
        "weights": full.weight.grad[:8],
        "x": x.grad,
        "equivariant": bool(apart < 1e-4),
        "linear": linear(x),
        "norm": norm(x),
        "tensor": tensor(torch.randn(2, 4), torch.randn(2, 3)),
        "batch norm": BatchNorm("3x0e + 2x1o")(x)[:2],
    }


class Network(torch.nn.Module):
    """A convolution over the edges of points, with a gate, and a sum over all."""

    def __init__(self):
        super().__init__()
        self.sh = o3.Irreps.spherical_harmonics(2)
        self.gate = Gate("4x0e", [torch.relu], "2x0e", [torch.sigmoid], "2x1o")
        self.first = o3.FullyConnectedTensorProduct("1x0e", self.sh, self.gate.irreps_in, shared_weights=False)
        self.second = o3.FullyConnectedTensorProduct(self.gate.irreps_out, self.sh, "1x0e", shared_weights=False)
        self.weights = torch.nn.ModuleList(
            [FullyConnectedNet([8, 16, product.weight_numel], torch.relu) for product in (self.first, self.second)]
        )

    def forward(self, points):
        source, target = torch.nonzero(1 - torch.eye(len(points))).T
        vectors = points[source] - points[target]
        harmonics = o3.spherical_harmonics(self.sh, vectors, True, normalization="component")
        lengths = soft_one_hot_linspace(vectors.norm(dim=1), 0.0, 3.0, 8, basis="smooth_finite", cutoff=True) * 8**0.5
        x = points.new_ones(len(points), 1)
        for product, weights in zip((self.first, self.second), self.weights, strict=True):
            edges = product(x[source], harmonics, weights(lengths))
            x = x.new_zeros(len(points), edges.shape[1]).index_add(0, target, edges) / len(points) ** 0.5
            if product is self.first:
                x = self.gate(x)
        return x.sum()


def training():
    torch.manual_seed(1)
    shapes = [torch.randn(4, 3) for _ in range(4)]
    wanted = [torch.cdist(shape, shape).mean() for shape in shapes]
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = sum((model(shape) - y).square() for shape, y in zip(shapes, wanted, strict=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "energy": model(shapes[0])}


def results():
    return {**representations(), **products(), **training()}
