"""einops: rearranging, reducing, and a patch classifier of its layers, trained for a few steps."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

PACKAGES = ["einops"]


def results():
    torch.manual_seed(0)
    images = torch.randn(4, 3, 8, 8)
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
    packed, shapes = pack([patches, images.mean((1, 2, 3)).view(4, 1, 1).expand(4, 1, 48)], "b * f")
    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
        EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=48, d=16),
        torch.nn.GELU(),
        Reduce("b t d -> b d", "mean"),
        torch.nn.Linear(16, 5),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), torch.arange(4))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {
        "patches": patches[1, 2],
        "maxima": reduce(images, "b c (h 4) (w 4) -> b c h w", "max"),
        "repeated": repeat(images[0, 0, 0], "w -> (w 2) h", h=2),
        "products": einsum(patches, patches, "b i f, b j f -> b i j"),
        "unpacked": unpack(packed, shapes, "b * f")[1],
        "losses": losses,
    }
