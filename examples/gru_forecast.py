"""Forecast a noisy time series with a GRU: learn the next values from a window, then run on its own predictions.

An ordinary PyTorch program. `python -m flambeau examples/gru_forecast.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


def make_series(length):
    """Two seasons, one of which slowly changes its strength, a trend and noise."""
    t = torch.arange(length, dtype=torch.float32)
    daily = torch.sin(2 * math.pi * t / 24)
    weekly = (0.6 + 0.3 * torch.cos(2 * math.pi * t / 900)) * torch.sin(2 * math.pi * t / 168)
    return daily + weekly + 0.0004 * t + 0.08 * torch.randn(length)


class Windows(Dataset):
    """Pairs of ``history`` values and the ``horizon`` values that follow them."""

    def __init__(self, series, history, horizon):
        self.series, self.history, self.horizon = series, history, horizon

    def __len__(self):
        return len(self.series) - self.history - self.horizon + 1

    def __getitem__(self, start):
        middle = start + self.history
        return self.series[start:middle].unsqueeze(-1), self.series[middle : middle + self.horizon]


class Forecaster(nn.Module):
    """A GRU reads the history; a linear layer says how far the next values lie from the last one."""

    def __init__(self, horizon, hidden=32):
        super().__init__()
        self.gru = nn.GRU(1, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, history):
        output, _ = self.gru(history)
        return history[:, -1] + self.head(output[:, -1])


class EarlyStopping:
    """Keeps the best state, and says when there was nothing better for ``patience`` epochs."""

    def __init__(self, model, patience):
        self.model, self.patience = model, patience
        self.best, self.state, self.waited = math.inf, None, 0

    def __call__(self, loss):
        if loss < self.best:
            self.best, self.state, self.waited = loss, copy.deepcopy(self.model.state_dict()), 0
        else:
            self.waited += 1
        return self.waited >= self.patience


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    losses = [(criterion(model(history), future), len(history)) for history, future in loader]
    return sum(loss.item() * count for loss, count in losses) / sum(count for _, count in losses)


@torch.no_grad()
def roll_out(model, history, steps):
    """``steps`` values on from ``history``, each forecast fed back as input."""
    model.eval()
    window, forecast = history.view(1, -1, 1), []
    while sum(map(len, forecast)) < steps:
        values = model(window)[0]
        forecast.append(values)
        window = torch.cat([window, values.view(1, -1, 1)], dim=1)[:, -history.numel() :]
    return torch.cat(forecast)[:steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=2400)
    parser.add_argument("--history", type=int, default=48)
    parser.add_argument("--horizon", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    series = make_series(options.length)
    split = int(0.8 * options.length)
    mean, std = series[:split].mean(), series[:split].std()
    dataset = Windows((series - mean) / std, options.history, options.horizon)
    train = Subset(dataset, range(split - options.history - options.horizon))
    test = Subset(dataset, range(split, len(dataset)))
    train_loader = DataLoader(train, batch_size=options.batch_size, shuffle=True)
    test_loader = DataLoader(test, batch_size=256)

    model = Forecaster(options.horizon)
    criterion = nn.SmoothL1Loss(beta=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    early_stopping = EarlyStopping(model, patience=4)
    step = 0
    for epoch in range(1, options.epochs + 1):
        model.train()
        for history, future in train_loader:
            loss = criterion(model(history), future)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if step == options.steps:
                return
        test_loss = evaluate(model, test_loader, criterion)
        scheduler.step(test_loss)
        print(f"epoch {epoch}: test loss {test_loss:.5f}, learning rate {optimizer.param_groups[0]['lr']:g}")
        if early_stopping(test_loss):
            break

    model.load_state_dict(early_stopping.state)
    normalized = dataset.series
    known, ahead = normalized[split - options.history : split], 48
    forecast = roll_out(model, known, ahead)
    actual = normalized[split : split + ahead]
    seasonal = normalized[split - 24 : split].repeat(ahead // 24)
    errors = [(values - actual).abs().mean() for values in (forecast, seasonal)]
    print(f"{ahead} values ahead: mean error {errors[0]:.4f}, repeating the last season {errors[1]:.4f}")


if __name__ == "__main__":
    main()
