"""byol-pytorch: representations of images without labels, with a slowly moving teacher and without."""

import torch
from byol_pytorch import BYOL
from torch import nn

PACKAGES = ["byol-pytorch"]
TOLERANCE = 1e-3, 1e-4  # PyTorch's own projections move by 1.4e-4 when the images change by 2e-7


def results():
    torch.manual_seed(0)
    first, second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
    body = first, nn.BatchNorm2d(8), nn.ReLU(), second, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    network = nn.Sequential(*body, nn.Linear(16, 10))
    options = {"image_size": 16, "hidden_layer": -2, "projection_size": 8, "projection_hidden_size": 32}
    learner = BYOL(network, augment_fn=nn.Identity(), augment_fn2=lambda images: images.flip(-1), **options)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        loss = learner(torch.rand(6, 3, 16, 16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner.update_moving_average()
        losses.append(loss.item())
    projection, embedding = learner(torch.rand(6, 3, 16, 16), return_embedding=True)
    torch.manual_seed(3)
    torch_random = BYOL(network, use_momentum=False, augment_fn=nn.Identity(), **options)(torch.rand(6, 3, 16, 16))
    return {"losses": losses, "projection": projection, "embedding": embedding, "without a teacher": torch_random}
