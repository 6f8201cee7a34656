"""A graph convolutional network: which group a node of a random graph belongs to, from a few labelled nodes.

Edges are likelier within a group than between two. The normalised adjacency matrix is sparse, the features are dense, and only some nodes
have features that say anything, so that the rest must learn from their neighbours.

An ordinary PyTorch program. `python -m flambeau examples/graph_network.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

GROUPS, FEATURES = 4, 16


def random_graph(nodes, inside, outside):
    """Edges both ways as indices ``(2, edges)``, and each node's group; a node has so many neighbours in and outside of its group."""
    group = torch.arange(nodes) % GROUPS
    source = torch.randint(0, nodes, (nodes * (inside + outside) // 2,))
    target = torch.randint(0, nodes, source.shape)
    is_inside = torch.arange(len(source)) % (inside + outside) < inside
    target = torch.where(is_inside, target - target % GROUPS + source % GROUPS, target).clamp(max=nodes - 1)
    return torch.cat([torch.stack([source, target]), torch.stack([target, source])], dim=1), group


def normalised(edges, nodes):
    """``D^-1/2 (A + I) D^-1/2`` as a CSR tensor: every edge counts once, and every node is its own neighbour."""
    loops = torch.arange(nodes).repeat(2, 1)
    indices = torch.cat([edges, loops], dim=1)
    adjacency = torch.sparse_coo_tensor(indices, torch.ones(indices.shape[1]), (nodes, nodes), check_invariants=True).coalesce()
    row, column = adjacency.indices()
    scale = torch.sparse.sum(adjacency, dim=1).to_dense().rsqrt()
    values = adjacency.values() * scale[row] * scale[column]
    return torch.sparse_coo_tensor(adjacency.indices(), values, (nodes, nodes), is_coalesced=True, check_invariants=True).to_sparse_csr()


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, adjacency, features):
        return torch.sparse.mm(adjacency, self.linear(features)) + self.bias


class Network(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first, self.second = GraphConvolution(FEATURES, hidden), GraphConvolution(hidden, GROUPS)

    def forward(self, adjacency, features):
        return self.second(adjacency, F.relu(self.first(adjacency, features)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=4000)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    edges, group = random_graph(options.nodes, inside=8, outside=4)
    adjacency = normalised(edges, options.nodes)
    centres = torch.randn(GROUPS, FEATURES)
    features = 0.6 * centres[group] + torch.randn(options.nodes, FEATURES)
    features[torch.rand(options.nodes) < 0.5] = 0.0
    labelled = torch.rand(options.nodes) < 0.05

    network = Network(options.hidden)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02, weight_decay=5e-4)
    for step in range(1, options.steps + 1):
        optimizer.zero_grad()
        scores = network(adjacency, features)
        loss = F.cross_entropy(scores[labelled], group[labelled])
        loss.backward()
        optimizer.step()
        if step <= 20:
            print(f"step {step} loss {loss.item():.7f}")
        elif step % 50 == 0:
            right = (scores.argmax(dim=1) == group)[~labelled].float().mean().item()
            print(f"after {step} steps: loss {loss.item():.4f}, {right:.1%} of the other nodes are right")


if __name__ == "__main__":
    main()
