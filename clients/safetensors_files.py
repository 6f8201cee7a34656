"""safetensors: tensors and a model's weights written to files and read again, whole, by name and in slices."""

import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

PACKAGES = ["safetensors"]


def results():
    torch.manual_seed(0)
    tensors = {
        "float32": torch.randn(3, 4),
        "float64": torch.randn(5, dtype=torch.float64),
        "float16": torch.randn(4).half(),
        "bfloat16": torch.randn(4).bfloat16(),
        "int64": torch.arange(6).view(2, 3),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tensors.safetensors"
        save_file(tensors, path, metadata={"format": "pt"})
        same = [torch.equal(tensor, tensors[name]) for name, tensor in load_file(path).items()]
        with safe_open(path, framework="pt", device="cpu") as file:
            rows = file.get_slice("float32")[1:]
            keys, metadata = sorted(file.keys()), file.metadata()["format"]
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
        save_model(model, str(Path(folder) / "model.safetensors"))
        torch.manual_seed(5)
        other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
        missing, unexpected = load_model(other, str(Path(folder) / "model.safetensors"))
    x = torch.randn(2, 4)
    return {
        "same": same,
        "keys": keys,
        "metadata": metadata,
        "rows": rows,
        "bytes": len(save(tensors)),
        "from bytes": load(save(tensors))["float64"],
        "model": other(x),
        "as saved": torch.equal(other(x), model(x)),
        "missing": len(missing) + len(unexpected),
    }
