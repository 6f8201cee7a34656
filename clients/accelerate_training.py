"""accelerate: a training prepared by it, with accumulated and clipped gradients, a checkpoint, sizes of modules, hooks, offloading."""

import os
import tempfile

import torch
from accelerate import Accelerator, cpu_offload, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.data_loader import skip_first_batches
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
from accelerate.utils import (
    broadcast,
    compute_module_sizes,
    extract_model_from_parallel,
    find_executable_batch_size,
    gather_object,
    get_balanced_memory,
    infer_auto_device_map,
    send_to_device,
    set_seed,
)
from torch import nn

PACKAGES = ["accelerate", "safetensors"]


def network():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))


def training():
    set_seed(3)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    x = torch.randn(48, 6)
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > x[:, 1]).long())
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, 6)
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses, norms, rates = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(3):
            for inputs, labels in loader:
                with accelerator.accumulate(model):
                    loss = nn.functional.cross_entropy(model(inputs), labels)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        norms.append(float(accelerator.clip_grad_norm_(model.parameters(), 0.5)))
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
                losses.append(accelerator.gather(loss).item())
            rates.append(schedule.get_last_lr()[0])
            if epoch == 1:
                accelerator.save_state(folder)
        files = sorted(os.listdir(folder))
        trained = accelerator.unwrap_model(model)[0].weight.clone()
        accelerator.load_state(folder)
        restored = extract_model_from_parallel(model)[0].weight.clone()
        accelerator.save_model(model, os.path.join(folder, "model"))
        with init_empty_weights():
            empty = network()
        whole = load_checkpoint_and_dispatch(empty, os.path.join(folder, "model"), device_map={"": "cpu"})
    first = [len(batch[0]) for batch in skip_first_batches(loader, 4)]
    return {
        "losses": losses,
        "norms": norms,
        "rates": rates,
        "files": files,
        "trained": trained,
        "restored": restored,
        "loaded": bool(torch.equal(whole[0].weight, restored)),
        "skipped": first,
        "state": [accelerator.num_processes, accelerator.is_main_process, str(accelerator.device), accelerator.mixed_precision],
    }


class Doubling(ModelHook):
    def pre_forward(self, module, *args, **kwargs):
        return (args[0] * 2, *args[1:]), kwargs

    def post_forward(self, module, output):
        return output + 1


def helpers():
    set_seed(5)
    layer = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    plain = layer(x)
    add_hook_to_module(layer, Doubling())
    hooked = layer(x)
    remove_hook_from_module(layer)
    with init_empty_weights():
        large = nn.Sequential(nn.Linear(4000, 4000), nn.Linear(4000, 10))
    offloaded = network().eval()
    before = offloaded(torch.ones(1, 6))
    cpu_offload(offloaded, execution_device=torch.device("cpu"))
    sizes = []

    @find_executable_batch_size(starting_batch_size=64)
    def search(batch_size):
        sizes.append(batch_size)
        if batch_size > 20:
            raise RuntimeError("CUDA out of memory.")
        return batch_size

    return {
        "plain": plain,
        "hooked": hooked,
        "after": layer(x),
        "sizes": dict(compute_module_sizes(large)),
        "map": dict(infer_auto_device_map(large, {"cpu": "1MB", "disk": "1GB"})),
        "memory": {str(k): v for k, v in get_balanced_memory(large, {"cpu": 10**9}).items()},
        "offloaded": bool(torch.allclose(offloaded(torch.ones(1, 6)), before)),
        "found": [search(), *sizes],
        "sent": send_to_device({"x": [x]}, "cpu")["x"][0],
        "gathered": gather_object([1, 2]),
        "broadcast": broadcast(x),
    }


def results():
    return {**training(), **helpers()}
