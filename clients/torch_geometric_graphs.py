"""torch-geometric: networks on graphs of eight kinds of convolution, batches of graphs, several kinds of nodes, sparse adjacencies."""

import torch
import torch.nn.functional as F
from torch_geometric import seed_everything
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    ChebConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    HeteroConv,
    NNConv,
    SAGEConv,
    TAGConv,
    TopKPooling,
    TransformerConv,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.models import GAE, MLP, GraphSAGE
from torch_geometric.transforms import GDC, AddSelfLoops, Compose, ToUndirected
from torch_geometric.utils import degree, dense_to_sparse, k_hop_subgraph, negative_sampling, scatter, softmax, to_dense_adj, to_dense_batch

PACKAGES = ["torch-geometric"]


def graph(nodes=20, features=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, nodes, (2, nodes * 3), generator=generator)
    x = torch.randn(nodes, features, generator=generator)
    return Data(x=x, edge_index=edges, edge_attr=torch.rand(nodes * 3, 2, generator=generator), y=(x.sum(1) > 0).long())


def convolutions(data):
    torch.manual_seed(0)
    layers = {
        "gcn": GCNConv(6, 4),
        "gat": GATv2Conv(6, 4, heads=2, edge_dim=2),
        "sage": SAGEConv(6, 4, aggr="max"),
        "gin": GINConv(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)), train_eps=True),
        "cheb": ChebConv(6, 4, K=3),
        "tag": TAGConv(6, 4),
        "nn": NNConv(6, 4, torch.nn.Linear(2, 24)),
        "transformer": TransformerConv(6, 4, heads=2, edge_dim=2),
    }
    given = {}
    for name, layer in layers.items():
        x = data.x.clone().requires_grad_()
        attributes = (data.edge_attr,) if name in ("nn", "gat", "transformer") else ()
        out = layer(x, data.edge_index, *attributes)
        out.square().sum().backward()
        given[name] = [out[:2], x.grad[:2], *[p.grad.sum() for p in layer.parameters()]]
    return given


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(6, 16), GCNConv(16, 2)

    def forward(self, x, edge_index):
        return self.second(F.dropout(self.first(x, edge_index).relu(), 0.2, self.training), edge_index)


def nodes(data):
    torch.manual_seed(1)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.x, data.edge_index), data.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    explainer = Explainer(
        model, GNNExplainer(epochs=3), explanation_type="model", node_mask_type="attributes", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    torch.manual_seed(2)
    explained = explainer(data.x, data.edge_index, index=3)
    return {"losses": losses, "logits": model(data.x, data.edge_index)[:3], "explained": explained.node_mask[3]}


class Graphs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.head = SAGEConv(6, 8), TopKPooling(8, 0.6), MLP([16, 8, 2], norm=None)

    def forward(self, data):
        x = self.conv(data.x, data.edge_index).relu()
        x, _, _, batch, _, _ = self.pool(x, data.edge_index, None, data.batch)
        return self.head(torch.cat([global_mean_pool(x, batch), global_max_pool(x, batch)], 1))


def graphs():
    many = []
    for i in range(12):
        each = graph(8 + i % 4, 6, seed=i)
        each.y = torch.tensor([i % 2])
        many.append(each)
    torch.manual_seed(3)
    model = Graphs()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(2):
        for batch in DataLoader(many, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), batch.y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return {"graph losses": losses, "dense": to_dense_batch(batch.x, batch.batch)[1].sum(1)}


def kinds_of_nodes():
    torch.manual_seed(4)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(5, 3), torch.randn(7, 4)
    data["user", "buys", "item"].edge_index = torch.stack([torch.randint(0, 5, (12,)), torch.randint(0, 7, (12,))])
    data = ToUndirected()(data)
    layer = HeteroConv({kind: SAGEConv((-1, -1), 6) for kind in data.edge_types}, aggr="sum")
    out = layer(data.x_dict, data.edge_index_dict)
    return {"user": out["user"], "item": out["item"], "kinds": [list(kind) for kind in data.edge_types]}


def helpers(data):
    seed_everything(5)
    adjacency = torch.sparse_coo_tensor(data.edge_index, torch.ones(data.num_edges), (20, 20)).coalesce().to_sparse_csr()
    conv = GCNConv(6, 4)
    encoder = GAE(GraphSAGE(6, 8, num_layers=2))
    z = encoder.encode(data.x, data.edge_index)
    changed = Compose([ToUndirected(), AddSelfLoops()])(data.clone())
    diffused = GDC()(Data(x=data.x, edge_index=data.edge_index))
    return {
        "adjacency": SAGEConv(6, 4)(data.x, adjacency.t()),
        "conv of csr": conv(data.x, adjacency.to_sparse_coo()),
        "reconstruction": encoder.recon_loss(z, data.edge_index, negative_sampling(data.edge_index, 20)),
        "degree": degree(data.edge_index[0], 20),
        "softmax": softmax(data.edge_attr[:, 0], data.edge_index[1])[:5],
        "scatter": [scatter(data.edge_attr, data.edge_index[1], 0, 20, how)[:4] for how in ("sum", "mean", "max", "mul")],
        "subgraph": k_hop_subgraph(3, 1, data.edge_index)[0],
        "adjacent": to_dense_adj(data.edge_index)[0].sum(0),
        "sparse": dense_to_sparse(torch.eye(3))[0],
        "edges": [changed.num_edges, diffused.num_edges],
        "printed": repr(data),
    }


def results():
    data = graph()
    return {**convolutions(data), **nodes(data), **graphs(), **kinds_of_nodes(), **helpers(data)}
