"""Attention forward and backward, causal, padded, with functions of scores, from 64 to 2,048 tokens; steps of GPTs; memory by length."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed, peak_bytes, resident_bytes, set_threads
from .models import Step, causal_layer
from .report import table, write_section

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
TOKENS = 2048  # in a batch: as many sequences as fit, 16 at most
LENGTHS = (64, 128, 256, 512, 1024, 2048)
LONG = (2048, 4096, 8192, 16384)  # lengths whose memory is measured
HEADS = {"8 heads of 64": (8, 64), "4 heads of 32": (4, 32)}


def operands(source: Source, length: int, heads: int, width: int) -> list[Any]:
    """Query, key and value as models have them: parts of one projection, heads inside rows."""
    batch = min(16, TOKENS // length) or 1
    together = source.normal(batch, length, 3, heads, width)
    return list(together.permute(2, 0, 3, 1, 4).unbind(0))


def padding(torch: ModuleType, batch: int, length: int) -> Any:
    """A mask over keys: sequences of the whole length, three quarters of it, half of it and a quarter."""
    lengths = torch.tensor([length * (4 - i % 4) // 4 for i in range(batch)])
    return (torch.arange(length) < lengths[:, None])[:, None, None]


def attention(length: int, heads: int, width: int, is_causal: bool, is_backward: bool) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        values = operands(source, length, heads, width)
        mask = None if is_causal else padding(torch, len(values[0]), length)

        def row(torch: ModuleType, query: Any, key: Any, value: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal)

        return comparison.backward(row, torch, values, values, source) if is_backward else comparison.forward(row, torch, values)

    return build


def flexible(length: int, kind: str) -> Callable[[ModuleType], Timed]:
    """Attention whose scores and mask are functions, 8 heads of 64; PyTorch's without its compiler, which would need one for C++."""

    def build(torch: ModuleType) -> Timed:
        flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
        flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
        source = Source(torch)
        values, slopes = operands(source, length, 8, 64), 2.0 ** -torch.arange(1.0, 9.0)
        score_mod, mask_mod = {
            "biases by distance, causal": (lambda s, b, h, q, kv: s - slopes[h] * (q - kv), lambda b, h, q, kv: q >= kv),
            "capped, window of 256": (lambda s, b, h, q, kv: torch.tanh(s / 20) * 20, lambda b, h, q, kv: (q >= kv) & (q - kv < 256)),
        }[kind]
        mask = flex.create_block_mask(mask_mod, None, None, length, length, device="cpu")
        return lambda: flex.flex_attention(*values, score_mod, mask)

    return build


def gpt(
    words: int, width: int, heads: int, layers: int, length: int, batch: int, *, torch: ModuleType
) -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
    """A GPT with AdamW and tokens to learn: the model, what computes the loss of a batch, and what steps."""
    nn, source, Block = torch.nn, Source(torch), causal_layer(torch, width, heads)

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = source.fill(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = source.integers(words, batch, length + 1)

    def loss_of_batch() -> Any:
        logits = model(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.view(-1, words), tokens[:, 1:].reshape(-1))

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of_batch()
        loss.backward()
        optimizer.step()
        return loss

    return model, loss_of_batch, step


# Words, width, heads, layers, length, batch
MODELS = {"0.8M parameters": (65, 128, 4, 4, 64, 12), "3.5M parameters": (4096, 192, 6, 6, 128, 8)}


def gpt_step(sizes: tuple[int, ...]) -> Callable[[ModuleType], Step]:
    return lambda torch: gpt(*sizes, torch=torch)[2]


def gpt_forward(sizes: tuple[int, ...]) -> Callable[[ModuleType], Timed]:
    return lambda torch: gpt(*sizes, torch=torch)[1]


CASES = [
    Case(
        f"{length} tokens, {name}",
        f"attention, {kind}{', backward' if is_backward else ''}",
        attention(length, *sizes, causal, is_backward),
    )
    for kind, causal in (("causal", True), ("padded", False))
    for is_backward in (False, True)
    for name, sizes in HEADS.items()
    for length in LENGTHS
]
CASES += [
    Case(f"{length} tokens, {kind}", "attention with functions of scores", flexible(length, kind))
    for kind in ("biases by distance, causal", "capped, window of 256")
    for length in (256, 1024, 2048)
]
CASES += [Case(name, "GPT, training step", gpt_step(sizes), rehearsals=3) for name, sizes in MODELS.items()]
CASES += [Case(name, "GPT, loss of a batch", gpt_forward(sizes)) for name, sizes in MODELS.items()]


# -- memory ------------------------------------------------------------------------------------------------------------------------
def peak_of(package: str, length: int, threads: int) -> int:
    """Bytes that attention over one sequence and its gradients take above the operands, in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, package, str(length), str(threads)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def print_peak(package: str, length: str, threads: str) -> None:
    set_threads(int(threads))
    torch = importlib.import_module(package)
    torch.set_num_threads(int(threads))
    source = Source(torch)

    def run(length: int) -> None:
        values = [value.requires_grad_() for value in operands(source, length, 4, 32)]
        torch.nn.functional.scaled_dot_product_attention(*values, is_causal=True).sum().backward()

    run(128)  # what is made once, code among it
    before = resident_bytes()
    print(peak_bytes(lambda: run(int(length))) - before)


def memory_table(threads: int) -> str:
    header = ["tokens, forward and backward", "flambeau, MB", "PyTorch, MB", "a matrix of scores for each head, MB"]
    rows = []
    for length in LONG:
        peaks = [peak_of(package, length, threads) / 1e6 for package in ("flambeau", "torch")]
        rows.append([str(length), *(f"{peak:.1f}" for peak in peaks), f"{4 * 4 * length**2 / 1e6:.0f}"])
    return table(header, rows)


def main(options: argparse.Namespace) -> int:
    outcomes = comparison.run_cases(__name__, CASES, options)
    text = comparison.summary(outcomes)
    if not options.only and not options.quick:
        text += f"\n\n{memory_table(options.threads)}"
    print(text)
    if options.write:
        remark = "Memory: resident, above a process that has run once; causal, one sequence, 4 heads of 32, operands included."
        write_section(options.name, f"{comparison.described(options)} {remark}\n\n{text}")
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    print_peak(*sys.argv[1:])
