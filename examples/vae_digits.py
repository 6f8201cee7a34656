"""A variational autoencoder for scikit-learn's handwritten digits: learn to reconstruct them, then draw digits of its own.

An ordinary PyTorch program. `python -m flambeau examples/vae_digits.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

PIXELS = 64


class VAE(nn.Module):
    """An encoder to the mean and log variance of a Gaussian, and a decoder to the logits of the pixels."""

    def __init__(self, hidden=128, latent=8):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(PIXELS, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, PIXELS))

    def encode(self, images):
        hidden = self.encoder(images)
        return self.mean(hidden), self.log_variance(hidden)

    def reparameterize(self, mean, log_variance):
        if not self.training:
            return mean
        return mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)

    def forward(self, images):
        mean, log_variance = self.encode(images)
        return self.decoder(self.reparameterize(mean, log_variance)), mean, log_variance

    @torch.no_grad()
    def sample(self, count):
        return torch.sigmoid(self.decoder(torch.randn(count, self.latent)))


def negative_elbo(logits, images, mean, log_variance, beta):
    """Reconstruction error and Kullback-Leibler divergence from the unit Gaussian, in nats an image."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return (reconstruction + beta * divergence) / len(images)


@torch.no_grad()
def evaluate(model, loader, beta):
    model.eval()
    total, seen = 0.0, 0
    for (images,) in loader:
        logits, mean, log_variance = model(images)
        total += negative_elbo(logits, images, mean, log_variance, beta).item() * len(images)
        seen += len(images)
    return total / seen


def show(images):
    """The images in letters, side by side."""
    shades = " .:-=+*#"
    levels = (images.view(-1, 8, 8) * (len(shades) - 1)).round().long()
    for rows in levels.transpose(0, 1).tolist():
        print("  ".join("".join(shades[level] for level in row) for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--beta", type=float, default=1.0, help="weight of the divergence")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", help="write the model's state_dict to this file")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    train, test = random_split(TensorDataset(images), [0.85, 0.15])
    train_loader = DataLoader(train, batch_size=options.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=256)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)

    step = 0
    for epoch in range(1, options.epochs + 1):
        model.train()
        for (batch,) in train_loader:
            optimizer.zero_grad(set_to_none=True)
            logits, mean, log_variance = model(batch)
            loss = negative_elbo(logits, batch, mean, log_variance, options.beta)
            loss.backward()
            optimizer.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if step == options.steps:
                return
        scheduler.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch}: training loss {loss.item():.3f}, test loss {evaluate(model, test_loader, options.beta):.3f}")

    originals = torch.stack([test[i][0] for i in range(8)])
    model.eval()
    with torch.no_grad():
        reconstructions = torch.sigmoid(model(originals)[0])
    for title, pictures in (("digits", originals), ("their reconstructions", reconstructions), ("drawn", model.sample(8))):
        print(f"--- {title}")
        show(pictures)
    if options.save:
        torch.save(model.state_dict(), options.save)


if __name__ == "__main__":
    main()
