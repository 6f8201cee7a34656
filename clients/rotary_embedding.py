"""rotary-embedding-torch: rotations of queries and keys, with interpolation, xpos and axial frequencies."""

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

PACKAGES = ["rotary-embedding-torch", "einops"]


def results():
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 10, 16, requires_grad=True), torch.randn(2, 3, 10, 16)
    plain = RotaryEmbedding(dim=8)
    rotated = plain.rotate_queries_or_keys(q)
    rotated.square().sum().backward()
    first, second = RotaryEmbedding(dim=8, use_xpos=True).rotate_queries_and_keys(q.detach(), k)
    axial = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=8).get_axial_freqs(4, 5)
    learned = RotaryEmbedding(dim=8, learned_freq=True)
    learned.rotate_queries_or_keys(k).sum().backward()
    return {
        "rotated": rotated[0, 0],
        "gradient": q.grad[0, 0],
        "cached": plain.rotate_queries_with_cached_keys(q.detach()[:, :, -2:], k)[0][0, 0],
        "xpos": first[0, 0] @ second[0, 0].T,
        "axial": apply_rotary_emb(axial, torch.randn(1, 4, 5, 8)),
        "interpolated": RotaryEmbedding(dim=8, interpolate_factor=2.0).rotate_queries_or_keys(k)[1, 1],
        "frequencies' gradient": learned.freqs.grad,
    }
