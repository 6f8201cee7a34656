"""local-attention: attention within windows, causal and not, and its transformer trained for a few steps."""

import torch
from local_attention import LocalAttention
from local_attention.transformer import LocalTransformer

PACKAGES = ["local-attention", "hyper-connections", "einops"]


def results():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 24, 8, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, 24, dtype=torch.bool)
    mask[1, 17:] = False
    attention = LocalAttention(dim=8, window_size=6, causal=True, look_backward=1, autopad=True)
    out = attention(q, k, v, mask=mask)
    out[:, :, :17].square().sum().backward()
    both = LocalAttention(dim=8, window_size=6, causal=False, look_backward=1, look_forward=1, exact_windowsize=False)
    torch.manual_seed(1)
    model = LocalTransformer(num_tokens=20, dim=16, depth=2, max_seq_len=32, heads=2, dim_head=8, causal=True, local_attn_window_size=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 20, (2, 25))
    losses = []
    for _ in range(4):
        loss = model(tokens, return_loss=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"out": out[0, 0], "gradient": k.grad[0, 1], "both sides": both(q, k, v)[0, 0], "losses": losses}
