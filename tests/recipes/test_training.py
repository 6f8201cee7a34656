"""Everyday programs: optimizers, schedules, data, checkpoints, and whole training runs."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest


# -- optimizers -------------------------------------------------------------------------------------------------------------
def test_groups_override_the_defaults(torch):
    nn, optim = torch.nn, torch.optim
    body, head = nn.Linear(2, 3), nn.Linear(3, 1)
    optimizer = optim.SGD([{"params": body.parameters()}, {"params": head.parameters(), "lr": 0.5}], lr=1e-3, momentum=0.8)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 0.5]
    assert optimizer.param_groups[1]["momentum"] == 0.8
    optimizer.param_groups[0]["lr"] = 0.25
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 0.25
    optimizer.add_param_group({"params": nn.Linear(1, 1).parameters()})
    assert len(optimizer.param_groups) == 3 and optimizer.defaults["lr"] == optimizer.param_groups[2]["lr"] == 1e-3
    with pytest.raises(KeyError, match="params"):
        optim.SGD([{"weights": body.parameters()}], lr=0.1)


@pytest.mark.parametrize(
    ("positional", "options", "error"),
    [
        (lambda w: w, {}, TypeError),
        (lambda w: [], {}, ValueError),
        (lambda w: [w], {"lr": -0.1}, ValueError),
        (lambda w: [w], {"betas": (0.9, 1.0)}, ValueError),
        (lambda w: [w], {"eps": -1.0}, ValueError),
        (lambda w: [w], {"weight_decay": -1.0}, ValueError),
    ],
)
def test_adam_refuses_bad_arguments(torch, positional, options, error):
    weight = torch.ones(2, requires_grad=True)
    with pytest.raises(error):
        torch.optim.Adam(positional(weight), **options)


@pytest.mark.parametrize("name", ["SGD", "ASGD", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "LBFGS"])
def test_every_optimizer_goes_downhill(torch, name):
    weight = torch.tensor([2.0, -4.0], requires_grad=True)
    optimizer = getattr(torch.optim, name)([weight], lr=0.03)

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(6)]
    assert losses[0] == 20 and closure().item() < losses[0]


def test_the_first_adam_step_is_the_rate_times_the_sign(torch):
    weight = torch.tensor([0.5, -0.5], requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.2)
    (weight * torch.tensor([100.0, -0.01])).sum().backward()
    optimizer.step()
    assert torch.allclose(weight.detach(), torch.tensor([0.3, -0.3]), atol=1e-4)
    assert set(optimizer.state[weight]) == {"step", "exp_avg", "exp_avg_sq"}


SCHEDULES = {
    "steps": (lambda S, o: S.MultiStepLR(o, milestones=[1, 3], gamma=0.1), [1, 0.1, 0.1, 0.01, 0.01]),
    "function": (lambda S, o: S.LambdaLR(o, lr_lambda=lambda epoch: 1 / (epoch + 1)), [1, 0.5, 0.3333, 0.25, 0.2]),
    "cosine": (lambda S, o: S.CosineAnnealingLR(o, T_max=2), [1, 0.5, 0, 0.5, 1]),
    "plateau": (lambda S, o: S.ReduceLROnPlateau(o, mode="min", patience=2, factor=0.5), [1, 1, 1, 1, 0.5]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_set_the_rate(torch, name):
    make, expected = SCHEDULES[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, rates = make(torch.optim.lr_scheduler, optimizer), []
    for _ in expected:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step(*[3.0] * (name == "plateau"))
    assert rates == pytest.approx(expected, abs=1e-4)


def test_clipping_returns_the_norm_before_and_bounds_it_after(torch):
    weight = torch.zeros(2, requires_grad=True)
    (weight * torch.tensor([-5.0, 12.0])).sum().backward()
    assert torch.nn.utils.clip_grad_norm_([weight], max_norm=6.5).item() == 13
    assert weight.grad.norm().item() == pytest.approx(6.5, abs=1e-3)
    torch.nn.utils.clip_grad_value_([weight], 1.0)
    assert weight.grad.tolist() == [-1, 1]


def test_regularisation_terms_add_their_derivative(torch):
    layer = torch.nn.Linear(3, 2)
    sum(p.abs().sum() for p in layer.parameters()).backward()
    assert torch.equal(layer.weight.grad, layer.weight.detach().sign())
    layer.zero_grad()
    sum(0.5 * 0.2 * p.pow(2).sum() for name, p in layer.named_parameters() if "bias" not in name).backward()
    assert torch.allclose(layer.weight.grad, 0.2 * layer.weight.detach()) and layer.bias.grad is None


def test_weight_decay_can_leave_biases_out(torch):
    layer = torch.nn.Linear(2, 3)
    groups = [{"params": [layer.bias], "weight_decay": 0}, {"params": [layer.weight]}]
    optimizer = torch.optim.SGD(groups, lr=0.5, weight_decay=0.2)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    (layer(torch.zeros(1, 2)) * 0).sum().backward()
    optimizer.step()
    assert torch.allclose(layer.weight, 0.9 * weight) and torch.equal(layer.bias.detach(), bias)


def test_mixup_trains_on_pairs(torch):
    nn = torch.nn
    share, x, y = 0.3, torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    layer, loss = nn.Linear(4, 3), nn.CrossEntropyLoss()
    other = torch.randperm(5)
    scores = layer(share * x + (1 - share) * x[other])
    mixed = share * loss(scores, y) + (1 - share) * loss(scores, y[other])
    mixed.backward()
    # the gradient is that of soft targets with the two shares
    hot = nn.functional.one_hot(y, 3).float()
    again = nn.functional.cross_entropy(scores.detach(), share * hot + (1 - share) * hot[other])
    assert mixed.item() == pytest.approx(again.item(), rel=1e-5) and layer.weight.grad.abs().sum() > 0


# -- checkpoints ------------------------------------------------------------------------------------------------------------
def test_states_and_whole_models_reproduce_their_outputs(torch, tmp_path):
    nn = torch.nn
    net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.tensor([[1.0, -1.0]])
    torch.save(net.state_dict(), tmp_path / "state.pth")
    again = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    again.load_state_dict(torch.load(tmp_path / "state.pth", map_location="cpu"))
    torch.save(net, tmp_path / "model.pth")
    whole = torch.load(tmp_path / "model.pth", weights_only=False)
    assert torch.equal(net(x), again(x)) and torch.equal(net(x), whole(x))


def test_partial_loading_names_what_is_missing_and_what_is_too_much(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    state = {"0.weight": torch.full((2, 2), 3.0), "0.bias": torch.zeros(2), "head.weight": torch.zeros(1)}
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*1\.weight.*Unexpected key.*head\.weight"):
        net.load_state_dict(state)
    keys = net.load_state_dict(state, strict=False)
    assert sorted(keys.missing_keys) == ["1.bias", "1.weight"] and keys.unexpected_keys == ["head.weight"]
    assert net[0].weight.sum() == 12


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(torch):
    x, y = torch.randn(10, 3), torch.randn(10, 1)

    def fresh():
        net = torch.nn.Linear(3, 1)
        return net, torch.optim.Adam(net.parameters(), lr=0.05)

    def train(net, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (net(x) - y).pow(2).mean().backward()
            optimizer.step()

    net, optimizer = fresh()
    train(net, optimizer, 4)
    file = io.BytesIO()
    torch.save({"epoch": 4, "best": 0.75, "net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(net, optimizer, 3)
    file.seek(0)
    saved = torch.load(file)
    resumed, its_optimizer = fresh()
    resumed.load_state_dict(saved["net"])
    its_optimizer.load_state_dict(saved["optimizer"])
    train(resumed, its_optimizer, 3)
    assert saved["epoch"] == 4 and saved["best"] == 0.75
    assert torch.equal(net.weight, resumed.weight) and torch.equal(net.bias, resumed.bias)


def test_after_freezing_only_the_new_layer_trains(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert sum(p.numel() for p in net.parameters()) == 58
    net.requires_grad_(False)
    net[2] = nn.Linear(8, 5)
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == 45
    optimizer = torch.optim.SGD(net[2].parameters(), lr=0.1)
    before = net[2].weight.detach().clone()
    net(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    assert net[0].weight.grad is None and not torch.equal(net[2].weight, before)


def test_fine_tuning_with_a_smaller_rate_covers_every_parameter_once(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    head = {id(p) for p in net[1].parameters()}
    body = [p for p in net.parameters() if id(p) not in head]
    optimizer = torch.optim.SGD([{"params": body, "lr": 1e-4}, {"params": net[1].parameters()}], lr=1e-2)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-4, 1e-2]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(net.parameters()))


# -- data -------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def data(torch):
    """``torch.utils.data``, which real PyTorch imports by itself."""
    return torch.utils.data


def test_dictionaries_are_collated_by_key(torch, data):
    class Cubes(data.Dataset):
        def __init__(self, count, transform=None):
            self.count, self.transform = count, transform

        def __len__(self):
            return self.count

        def __getitem__(self, k):
            k = k.tolist() if torch.is_tensor(k) else k
            x = torch.tensor(float(k))
            return {"x": self.transform(x) if self.transform else x, "y": k**3}

    cubes = Cubes(7, transform=lambda x: x / 2)
    batches = list(data.DataLoader(cubes, batch_size=3))
    assert [len(batch["y"]) for batch in batches] == [3, 3, 1]
    assert batches[1]["x"].tolist() == [1.5, 2, 2.5] and batches[0]["y"].tolist() == [0, 1, 8]
    assert len(data.DataLoader(cubes, batch_size=3, drop_last=True)) == 2
    assert cubes[torch.tensor(2)]["y"] == 8


def test_contradicting_options_of_a_loader_are_refused(torch, data):
    pairs = data.TensorDataset(torch.arange(5), torch.arange(5) * 2)
    sampler = data.SequentialSampler(pairs)
    with pytest.raises(ValueError, match="shuffle"):
        data.DataLoader(pairs, sampler=sampler, shuffle=True)
    with pytest.raises(ValueError, match="batch_size"):
        data.DataLoader(pairs, batch_sampler=data.BatchSampler(sampler, 2, False), batch_size=2)


def test_a_loader_uses_the_collate_function_given(torch, data):
    pairs = data.TensorDataset(torch.arange(5))
    assert list(data.DataLoader(pairs, 2, collate_fn=len)) == [2, 2, 1]
    assert [x.tolist() for (x,) in data.DataLoader(pairs, 2)] == [[0, 1], [2, 3], [4]]


def test_samplers_give_the_indices_they_promise(torch, data):
    items = "wxyz"
    assert list(data.SequentialSampler(items)) == [0, 1, 2, 3]
    assert sorted(data.RandomSampler(items)) == [0, 1, 2, 3]
    assert sorted(data.SubsetRandomSampler([0, 3])) == [0, 3]
    assert list(data.WeightedRandomSampler([0.0, 2.0, 0.0], 3)) == [1, 1, 1]
    assert sorted(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]


def test_data_sets_can_be_cut_and_joined(torch, data):
    pairs = data.TensorDataset(torch.arange(5), torch.arange(5) * 3)
    joined = data.ConcatDataset([data.Subset(pairs, [4, 0]), pairs])
    assert len(joined) == 7
    assert [value.item() for value in joined[0]] == [4, 12] and [value.item() for value in joined[3]] == [1, 3]


# -- whole runs -------------------------------------------------------------------------------------------------------------
def train_classifier(torch):
    """Ten epochs on points that a line divides."""
    nn, data = torch.nn, torch.utils.data
    x = torch.randn(160, 2)
    loader = data.DataLoader(data.TensorDataset(x, (x[:, 0] > x[:, 1]).long()), batch_size=16, shuffle=True)
    net, loss = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 2)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    schedule, losses = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[7], gamma=0.1), []
    for _ in range(10):
        net.train()
        for points, labels in loader:
            optimizer.zero_grad()
            value = loss(net(points), labels)
            value.backward()
            optimizer.step()
            losses.append(value.item())
        schedule.step()
    net.eval()
    with torch.no_grad():
        hits = sum((net(points).argmax(1) == labels).sum().item() for points, labels in loader)
    return SimpleNamespace(accuracy=hits / 160, rate=optimizer.param_groups[0]["lr"], losses=losses)


def test_a_classifier_learns_to_separate_two_classes(torch):
    run = train_classifier(torch)
    assert run.accuracy > 0.95 and run.rate == pytest.approx(0.02)


@pytest.mark.oracle
def test_a_training_run_has_the_losses_of_pytorch(oracle):
    import flambeau

    runs = []
    for library in (flambeau, oracle):
        library.manual_seed(3)
        runs.append(train_classifier(library))
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-3, abs=1e-5)


def test_the_conventions_of_an_evaluation_loop(torch):
    nn = torch.nn
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.5), nn.Linear(6, 1)).to(device)
    x = torch.randn(5, 3).to(device, non_blocking=True)
    state = x.new_zeros(2, 6)
    assert state.device == x.device and state.dtype == x.dtype
    net.eval()
    with torch.no_grad():
        first, second = net(x), net(x)
    assert torch.equal(first, second) and not first.requires_grad and not net.training
    assert isinstance(first.mean().item(), float)
    assert net.train().training and net[1].training
    assert not torch.equal(net(x.repeat(20, 1)), net(x.repeat(20, 1)))


# -- profiles --------------------------------------------------------------------------------------------------------------
def test_a_table_of_what_takes_time(torch):
    with torch.autograd.profiler.profile(enabled=True) as prof:
        torch.mm(torch.ones(32, 32), torch.ones(32, 32))
    table = prof.key_averages().table(sort_by="cpu_time_total")
    assert "mm" in table and len(str(prof)) > 0


def test_the_report_on_a_script(tmp_path):
    script = tmp_path / "job.py"
    script.write_text('import sys\nimport flambeau as torch\nassert sys.argv[1] == "7"\nprint(torch.ones(2).sum())\n')
    command = [sys.executable, "-m", "flambeau.utils.bottleneck", str(script), "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "cProfile" in done.stdout and "autograd profiler" in done.stdout
    assert done.stdout.count("tensor(2.)") == 2 and "aten::sum" in done.stdout
