"""transformers' BERT and GPT-2 taken out of Python: compiled, traced, exported with sizes that are symbols, saved and loaded."""

import io

import torch
from torch.export import Dim
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

PACKAGES = ["transformers"]


class Logits(torch.nn.Module):
    """A model as a function of tokens, which gives one tensor."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, tokens):
        options = {} if self.name == "last_hidden_state" else {"use_cache": False}
        return getattr(self.model(tokens, **options), self.name)


def models():
    torch.manual_seed(0)
    small = {"attn_implementation": "eager"}
    bert = BertModel(BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, **small))
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=32, **small))
    return {"bert": Logits(bert.eval(), "last_hidden_state"), "gpt": Logits(gpt.eval(), "logits")}


def exported(name, model, tokens, others):
    batch, length = Dim("batch", min=1, max=8), Dim("length", min=2, max=32)
    program = torch.export.export(model, (tokens,), dynamic_shapes=({0: batch, 1: length},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    return {
        f"{name} exported": [program.module()(each)[0, -1] for each in others],
        f"{name} loaded": [loaded(each)[0, -1, :8] for each in others],
    }


def results():
    found = {}
    generator = torch.Generator().manual_seed(1)
    tokens, *others = (torch.randint(0, 60, shape, generator=generator) for shape in ((2, 7), (2, 7), (3, 11)))
    with torch.no_grad():
        for name, model in models().items():
            found[name] = model(tokens)[:, -1]
            found[f"{name} compiled"] = [torch.compile(model, backend="eager")(each)[0, -1] for each in (tokens, *others)]
            traced = torch.jit.trace(model, (tokens,), strict=False)
            found[f"{name} traced"] = traced(others[0])[0, -1]
            found |= exported(name, model, tokens, (tokens, *others))
    return found
