"""Everyday programs: modules and what they keep, layers, activations, losses."""

from __future__ import annotations

import math
from collections import OrderedDict

import pytest


# -- modules ----------------------------------------------------------------------------------------------------------------
def test_apply_visits_children_before_their_parent(torch):
    nn, visited = torch.nn, []

    def fill(module):
        visited.append(type(module).__name__)
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 2.0)

    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    assert net.apply(fill) is net
    assert visited == ["Linear", "ReLU", "Linear", "Sequential"]
    assert net[0].weight.sum() == 12 and net[2].weight.sum() == 4


def test_each_kind_of_layer_gets_its_own_initial_weights(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.weight, 0.5)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)
    assert net[1].weight.sum() == 2
    assert all(net[k].bias.abs().sum() == 0 for k in (0, 1, 3))
    assert net[0].weight.std() > 0.05


def test_initialisers_make_what_their_names_say(torch):
    init = torch.nn.init
    assert init.calculate_gain("relu") == pytest.approx(math.sqrt(2))
    assert init.calculate_gain("tanh") == pytest.approx(5 / 3)
    q = init.orthogonal_(torch.empty(3, 5))
    assert torch.allclose(q @ q.t(), torch.eye(3), atol=1e-5)
    assert torch.equal(init.eye_(torch.empty(2, 3)), torch.eye(2, 3))
    kernel = init.dirac_(torch.empty(3, 3, 5))
    assert kernel.sum() == 3 and kernel[1, 1, 2] == 1
    assert (init.sparse_(torch.empty(20, 3), sparsity=0.25) == 0).sum(0).tolist() == [5, 5, 5]


def test_sequential_can_be_made_in_three_ways(torch):
    nn = torch.nn
    grown = nn.Sequential()
    grown.add_module("mix", nn.Linear(4, 3))
    grown.add_module("act", nn.Tanh())
    given = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    named = nn.Sequential(OrderedDict(mix=nn.Linear(4, 3), act=nn.Tanh()))
    for net in (given, named):
        net[0].load_state_dict(grown.mix.state_dict())
    x = torch.randn(2, 4)
    assert torch.equal(grown(x), given(x)) and torch.equal(grown(x), named(x))
    assert [name for name, _ in grown.named_children()] == ["mix", "act"] == list(named._modules)
    assert isinstance(given[1], nn.Tanh) and isinstance(named.act, nn.Tanh)


def test_attributes_register_by_their_kind(torch):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.plain = torch.ones(3)
            self.inner = nn.Linear(2, 1)
            self.unseen = [nn.Linear(2, 1)]
            self.register_buffer("count", torch.zeros(1))
            self.register_parameter("absent", None)

    model = Model()
    assert set(model._parameters) == {"scale", "absent"} and list(model._modules) == ["inner"]
    assert "plain" in model.__dict__ and "scale" not in model.__dict__
    assert sorted(model.state_dict()) == ["count", "inner.bias", "inner.weight", "scale"]
    assert len(list(model.parameters())) == 3
    with pytest.raises(AttributeError, match="nothing"):
        model.nothing  # noqa: B018


def test_modules_is_deep_and_children_is_not(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 1))
    assert len(list(net.modules())) == 5 and len(list(net.children())) == 2
    assert [name for name, _ in net.named_modules()] == ["", "0", "0.0", "0.1", "1"]
    assert [name for name, _ in net.named_parameters()] == ["0.0.weight", "0.0.bias", "1.weight", "1.bias"]


def test_lists_of_modules_and_parameters_register_their_items(torch):
    nn = torch.nn
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers.append(nn.Tanh())
    layers.extend([nn.Linear(2, 3), nn.Linear(3, 1)])
    values = nn.ParameterList([nn.Parameter(torch.zeros(2))])
    values.append(nn.Parameter(torch.ones(1)))
    assert len(layers) == 4 and len(list(layers.parameters())) == 6
    assert len(values) == 2 and [tuple(p.shape) for p in values.parameters()] == [(2,), (1,)]


def test_hooks_are_called_once_a_pass_until_removed(torch):
    layer, calls = torch.nn.Linear(2, 3), []
    forward = layer.register_forward_hook(lambda module, args, out: calls.append(("forward", tuple(out.shape))))
    backward = layer.register_full_backward_hook(lambda module, given, got: calls.append(("backward", tuple(got[0].shape))))
    layer(torch.ones(5, 2, requires_grad=True)).sum().backward()
    assert calls == [("forward", (5, 3)), ("backward", (5, 3))]
    forward.remove()
    backward.remove()
    layer(torch.ones(5, 2)).sum().backward()
    assert len(calls) == 2


def test_a_linear_layer_of_ones_own_equals_the_built_in_one(torch):
    nn = torch.nn

    class Affine(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.5, 0.5))
            self.bias = nn.Parameter(torch.zeros(outputs))

        def forward(self, x):
            return nn.functional.linear(x, self.weight, self.bias)

    own, built_in = Affine(3, 2), nn.Linear(3, 2)
    built_in.load_state_dict(own.state_dict())
    x = torch.randn(4, 3)
    assert torch.equal(own(x), built_in(x))
    assert [name for name, _ in own.named_parameters()] == ["weight", "bias"]


def test_linear_keeps_its_weight_as_outputs_by_inputs(torch):
    nn = torch.nn
    x = torch.Tensor([[2, 1], [0, 3], [5, 5]])
    first, second = nn.Linear(2, 4), nn.Linear(4, 6)
    assert first.weight.shape == (4, 2) and second.weight.data.T.shape == (4, 6)
    assert torch.allclose(first(x), x @ first.weight.T + first.bias)
    assert second(first(x)).shape == (3, 6)


def test_a_weight_can_be_replaced_by_a_parameter_only(torch):
    nn = torch.nn
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(torch.eye(3))
    assert layer.weight.requires_grad and layer.state_dict()["weight"].tolist() == torch.eye(3).tolist()
    with pytest.raises(TypeError, match="weight"):
        layer.weight = torch.zeros(3, 3)


# -- layers -----------------------------------------------------------------------------------------------------------------
def test_lenet_has_its_61706_parameters(torch):
    nn, F = torch.nn, torch.nn.functional

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
            self.full1, self.full2, self.full3 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = F.relu(self.full1(x.view(x.size(0), -1)))
            return self.full3(F.relu(self.full2(x)))

    net = LeNet()
    scores = net(torch.randn(3, 1, 32, 32))
    assert scores.shape == (3, 10)
    assert sum(p.numel() for p in net.parameters()) == 61706
    scores.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_convolutions_have_the_documented_output_sizes(torch):
    nn, x = torch.nn, torch.randn(2, 3, 16, 16)
    layer = nn.Conv2d(3, 8, 3, padding=1)
    assert layer(x).shape == (2, 8, 16, 16)
    assert nn.Conv2d(3, 8, 5)(x).shape == (2, 8, 12, 12)
    assert nn.Conv2d(3, 8, 3, stride=2, padding=1)(x).shape == (2, 8, 8, 8)
    assert torch.equal(nn.functional.conv2d(x, layer.weight, layer.bias, padding=1), layer(x))
    assert nn.ConvTranspose2d(3, 5, 2, stride=2)(x).shape == (2, 5, 32, 32)
    assert str(layer) == "Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    padded = nn.ConstantPad2d(1, 2.5)(x)
    assert padded.shape == (2, 3, 18, 18) and padded[0, 0, 0, 5] == 2.5


def test_pooling_steps_by_its_window_and_unpooling_puts_values_back(torch):
    nn = torch.nn
    pool = nn.MaxPool2d(3)
    assert pool(torch.randn(2, 1, 10, 10)).shape == (2, 1, 3, 3)
    assert not list(pool.parameters()) and not pool.state_dict()
    x = torch.arange(16.0).flip(0).reshape(1, 1, 4, 4)
    values, places = nn.MaxPool2d(2, return_indices=True)(x)
    assert values.flatten().tolist() == [15, 13, 7, 5] and places.flatten().tolist() == [0, 2, 8, 10]
    restored = nn.MaxUnpool2d(2)(values, places)
    assert restored.shape == x.shape and restored[0, 0, 2].tolist() == [7, 0, 5, 0]
    assert nn.AdaptiveAvgPool2d(1)(x).item() == 7.5


def test_average_pooling_counts_the_padding_unless_told(torch):
    nn, x = torch.nn, torch.full((1, 1, 2, 2), 4.0)
    assert nn.AvgPool2d(2, padding=1)(x).flatten().tolist() == [1, 1, 1, 1]
    assert nn.AvgPool2d(2, padding=1, count_include_pad=False)(x).flatten().tolist() == [4, 4, 4, 4]


def test_activations_at_three_points(torch):
    nn, x = torch.nn, torch.tensor([-4.0, 0.0, 7.0])
    assert nn.ReLU()(x).tolist() == [0, 0, 7] and nn.ReLU6()(x).tolist() == [0, 0, 6]
    assert nn.Hardtanh()(x).tolist() == [-1, 0, 1]
    assert nn.LeakyReLU(0.5)(x).tolist() == [-2, 0, 7] and nn.PReLU(init=0.25)(x).tolist() == [-1, 0, 7]
    assert nn.Threshold(0.5, 9)(x).tolist() == [9, 9, 7]
    assert nn.Softshrink(1)(x).tolist() == [-3, 0, 6]
    assert torch.allclose(nn.Softmax(dim=0)(x).sum(), torch.tensor(1.0))
    assert torch.allclose(nn.LogSoftmax(dim=0)(x).exp(), nn.Softmin(dim=0)(-x))


def test_batch_norm_normalises_in_training_and_remembers_for_evaluation(torch):
    norm, x = torch.nn.BatchNorm2d(3), torch.randn(6, 3, 4, 4) * 2 - 5
    y = norm(x)
    assert y.mean((0, 2, 3)).abs().max() < 1e-4
    assert (y.std((0, 2, 3), unbiased=False) - 1).abs().max() < 1e-3
    assert torch.allclose(norm.running_mean, 0.1 * x.mean((0, 2, 3)), atol=1e-5)
    assert norm.num_batches_tracked == 1
    assert not torch.allclose(norm.eval()(x), y)
    assert norm.num_batches_tracked == 1
    assert set(norm.state_dict()) == {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}


def test_functional_dropout_is_on_unless_told_otherwise(torch):
    F, x = torch.nn.functional, torch.ones(400)
    assert set(F.dropout(x, 0.5).tolist()) == {0.0, 2.0} == set(F.dropout(x, 0.5, True).tolist())
    assert torch.equal(F.dropout(x, p=0.5, training=False), x)


def test_the_padding_row_of_an_embedding_stays_out(torch):
    nn = torch.nn
    table = nn.Embedding(6, 4, padding_idx=2)
    rows = table(torch.tensor([[2, 1], [1, 5]]))
    assert rows.shape == (2, 2, 4) and rows[0, 0].abs().sum() == 0
    rows.sum().backward()
    assert table.weight.grad[:, 0].tolist() == [0, 2, 0, 0, 0, 1]
    bounded = nn.Embedding(8, 16, max_norm=0.5)(torch.arange(8))
    assert bounded.norm(dim=1).max() <= 0.5 + 1e-4


# -- losses -----------------------------------------------------------------------------------------------------------------
def test_reductions_of_the_squared_error(torch):
    nn = torch.nn
    prediction, target = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.ones(2, 2)
    assert nn.MSELoss()(prediction, target).item() == 3.5 == ((prediction - target) ** 2).mean().item()
    assert nn.MSELoss(reduction="sum")(prediction, target).item() == 14
    assert nn.MSELoss(reduction="none")(prediction, target).tolist() == [[0, 1], [4, 9]]


def test_old_averaging_keywords_still_work(torch):
    nn = torch.nn
    prediction, target = torch.tensor([2.0, 6.0]), torch.zeros(2)
    with pytest.warns(UserWarning, match="size_average"):
        losses = [nn.L1Loss(size_average=True), nn.L1Loss(size_average=False), nn.L1Loss(reduce=False)]
    assert [loss(prediction, target).tolist() for loss in losses] == [4, 8, [2, 6]]


def test_cross_entropy_is_log_softmax_and_nll(torch):
    nn, F = torch.nn, torch.nn.functional
    scores, labels = torch.randn(5, 3), torch.tensor([2, -100, 0, 1, -100])
    assert torch.allclose(nn.CrossEntropyLoss()(scores, labels), nn.NLLLoss()(F.log_softmax(scores, dim=1), labels))
    kept = labels != -100
    assert torch.allclose(F.cross_entropy(scores, labels), F.cross_entropy(scores[kept], labels[kept]))
    pictures = F.log_softmax(torch.randn(2, 3, 5, 5), 1)
    assert nn.NLLLoss()(pictures, torch.ones(2, 5, 5, dtype=torch.long)).dim() == 0


def test_margin_and_embedding_losses(torch):
    nn = torch.nn
    a, b, axes = torch.tensor([3.0, 1.0]), torch.tensor([1.0, 2.0]), torch.eye(3)
    assert nn.MarginRankingLoss(margin=1.0)(a, b, torch.ones(2)).item() == 1.0
    assert nn.HingeEmbeddingLoss()(a, torch.tensor([1.0, -1.0])).item() == 1.5
    assert nn.SmoothL1Loss()(a, torch.zeros(2)).item() == 1.5
    assert nn.CosineEmbeddingLoss()(axes, axes, torch.ones(3)).item() == pytest.approx(0, abs=1e-6)
    assert nn.TripletMarginLoss(margin=0.5)(axes, axes, axes.roll(1, 0)).item() == pytest.approx(0, abs=1e-5)
    assert nn.BCELoss()(torch.tensor([0.25]), torch.ones(1)).item() == pytest.approx(math.log(4), abs=1e-5)
    assert nn.PairwiseDistance(2)(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).item() == pytest.approx(5, abs=1e-4)


def test_a_loss_of_ones_own(torch):
    class Quartic(torch.nn.Module):
        def forward(self, x, y):
            return torch.mean(torch.square(torch.square(x - y)))

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = Quartic()(x, torch.zeros(2))
    loss.backward()
    assert loss.item() == 8.5 and x.grad.tolist() == [2, 16]


def test_smoothed_labels_equal_soft_targets(torch):
    F = torch.nn.functional
    count, classes, labels, scores = 4, 3, torch.tensor([2, 0, 1, 1]), torch.randn(4, 3)
    target = torch.full(size=(count, classes), fill_value=0.2 / (classes - 1)).scatter_(1, labels.unsqueeze(1), 0.8)
    assert torch.allclose(target.sum(1), torch.ones(count))
    by_hand = -(F.log_softmax(scores, dim=1) * target).sum() / count
    assert torch.allclose(by_hand, F.cross_entropy(scores, target))
    # the argument spreads its share over all classes, the true one included
    assert torch.allclose(by_hand, F.cross_entropy(scores, labels, label_smoothing=0.3))
