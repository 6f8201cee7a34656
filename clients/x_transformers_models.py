"""x-transformers: a decoder with rotary positions and key-value heads trained and sampled, and an encoder with memory tokens."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper

PACKAGES = ["x-transformers", "einops", "einx", "frozendict", "loguru", "torch-einops-utils", "hyper-connections"]


def results():
    torch.manual_seed(0)
    decoder = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, attn_kv_heads=2, use_rmsnorm=True, ff_glu=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=30, max_seq_len=24, attn_layers=decoder))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(0, 30, (4, 17))
    losses = []
    for _ in range(6):
        loss = model(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    generated = model.generate(tokens[:2, :5], 8, temperature=0.0)
    torch.manual_seed(1)
    encoder = TransformerWrapper(
        num_tokens=30,
        max_seq_len=16,
        num_memory_tokens=3,
        attn_layers=Encoder(dim=24, depth=2, heads=3, attn_dim_head=8, alibi_pos_bias=True, attn_qk_norm=True, macaron=True),
    ).eval()
    mask = torch.ones(4, 12, dtype=torch.bool)
    mask[1, 7:] = False
    return {"losses": losses, "generated": generated, "encoded": encoder(tokens[:, :12], mask=mask, return_embeddings=True)[1, :3]}
