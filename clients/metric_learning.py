"""pytorch-metric-learning: losses with miners and regularizers on embeddings that are trained, and retrieval accuracy."""

import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers

PACKAGES = ["pytorch-metric-learning"]


def results():
    torch.manual_seed(0)
    x, labels = torch.randn(24, 6), torch.arange(24) % 4
    x += 1.5 * torch.nn.functional.one_hot(labels, 6)
    functions = {
        "triplet": losses.TripletMarginLoss(margin=0.2, distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0)),
        "contrastive": losses.ContrastiveLoss(embedding_regularizer=regularizers.LpRegularizer()),
        "multi similarity": losses.MultiSimilarityLoss(),
        "n-tuplet": losses.NTXentLoss(temperature=0.3),
        "circle": losses.CircleLoss(),
        "sup con": losses.SupConLoss(),
        "fast ap": losses.FastAPLoss(),
        "lifted": losses.LiftedStructureLoss(),
        "arcface": losses.ArcFaceLoss(num_classes=4, embedding_size=4),
        "proxy anchor": losses.ProxyAnchorLoss(num_classes=4, embedding_size=4),
    }
    miner = miners.MultiSimilarityMiner()
    found = {}
    for name, function in functions.items():
        torch.manual_seed(1)
        model = torch.nn.Linear(6, 4)
        optimizer = torch.optim.SGD([*model.parameters(), *function.parameters()], lr=0.05)
        seen = []
        for _ in range(4):
            embeddings = model(x)
            pairs = miner(embeddings, labels) if name in ("triplet", "multi similarity") else None
            loss = function(embeddings, labels, pairs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        found[name] = seen
    return found
