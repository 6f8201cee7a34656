"""tensordict: dictionaries of tensors cut, stacked, stored and trained, modules that read and write them, and an ensemble by vmap."""

import tempfile

import torch
from tensordict import MemoryMappedTensor, TensorDict, TensorDictParams, from_module, tensorclass
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from torch import nn

PACKAGES = ["tensordict"]


@tensorclass
class Step:
    state: torch.Tensor
    reward: torch.Tensor


def shapes():
    data = TensorDict({"a": torch.arange(12.0).reshape(3, 4), "nested": {"b": torch.ones(3, 2)}}, batch_size=[3])
    stacked = torch.stack([data, data * 2], 0)
    joined = torch.cat([data, data[:1]], 0)
    lazy = TensorDict.lazy_stack([data[0], data[1]], 0)
    step = Step(state=torch.arange(6.0).reshape(3, 2), reward=torch.ones(3), batch_size=[3])
    with tempfile.TemporaryDirectory() as folder:
        data.memmap(folder)
        loaded = TensorDict.load_memmap(folder)["nested", "b"].clone()
    return {
        "stacked": [list(stacked.batch_size), stacked["nested", "b"].sum()],
        "joined": joined["a"],
        "lazy": lazy["a"],
        "keys": sorted(map(str, data.flatten_keys(".").keys())),
        "split": [part["a"].sum() for part in data.split(2)],
        "gathered": data.gather(0, torch.tensor([2, 0]))["a"],
        "reshaped": list(stacked.reshape(-1).batch_size),
        "selected": sorted(data.select("a").keys()),
        "applied": data.apply(lambda x: x + 1)["nested", "b"],
        "step": [(step + 1).state.sum(), step[0].reward, list(step.reshape(3, 1).batch_size)],
        "loaded": loaded,
        "mapped": MemoryMappedTensor.from_tensor(torch.ones(2)) + 1,
        "printed": repr(data),
    }


def modules():
    torch.manual_seed(0)
    encode = TensorDictModule(nn.Linear(4, 8), in_keys=["x"], out_keys=["hidden"])
    head = TensorDictModule(nn.Sequential(nn.Tanh(), nn.Linear(8, 2)), in_keys=["hidden"], out_keys=["loc"])
    scale = TensorDictModule(lambda loc: torch.ones_like(loc) * 0.5, in_keys=["loc"], out_keys=["scale"])
    draw = ProbabilisticTensorDictModule(
        in_keys=["loc", "scale"], out_keys=["action"], distribution_class=torch.distributions.Normal, return_log_prob=True
    )
    policy = TensorDictSequential(encode, head, scale, draw)
    optimizer = torch.optim.Adam(policy.parameters(), 0.05)
    x = torch.randn(16, 4)
    losses = []
    for _ in range(8):
        data = policy(TensorDict({"x": x}, batch_size=[16]))
        loss = (data["loc"] - x[:, :2] * x[:, 2:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "action": data["action"], "log_prob": data[next(k for k in data.keys() if "log_prob" in str(k))]}


def ensemble():
    torch.manual_seed(1)
    nets = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(3)]
    parameters = TensorDict.from_modules(*nets, as_module=True)
    net = nets[0]
    x = torch.randn(5, 3)

    def call(x, own):
        with own.to_module(net):
            return net(x)

    outputs = torch.vmap(call, (None, 0))(x, parameters)
    outputs.square().mean().backward()
    data = TensorDict({"x": torch.randn(4, 3), "y": torch.randn(4, 3)}, batch_size=[4])
    sums = torch.vmap(lambda d: d.apply(lambda v: v.cumsum(0)).set("z", d["x"] + d["y"]))(data)
    weights = from_module(net).apply(lambda p: p.detach() * 0)
    trained = TensorDictParams(TensorDict({"w": torch.ones(2)}, []))
    (trained["w"] * torch.tensor([1.0, 2.0])).sum().backward()
    with weights.to_module(net):
        zero = net(x)
    return {
        "outputs": outputs,
        "gradients": [p.grad.sum() for p in parameters.parameters()],
        "batched": [sums["x"], sums["z"], list(sums.batch_size)],
        "zero": zero,
        "after": net(x),
        "w": trained["w"].grad,
    }


def results():
    return {**shapes(), **modules(), **ensemble()}
