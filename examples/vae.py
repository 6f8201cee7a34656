"""A variational autoencoder written with distributions: scikit-learn's digits, whose pixels count from 0 to 16, as binomial numbers.

The encoder gives a distribution over latent vectors, the decoder one over images. Training maximizes the evidence lower bound, with the
divergence in closed form; the test images are scored with the tighter bound of several weighted samples (Burda, Grosse and Salakhutdinov
2016).

An ordinary PyTorch program. `python -m flambeau examples/vae.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.distributions import Binomial, Independent, Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset, random_split

PIXELS, SHADES = 64, 16


class VAE(nn.Module):
    """Two networks that return distributions, and a prior."""

    def __init__(self, hidden=128, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, PIXELS))
        self.register_buffer("origin", torch.zeros(latent))

    @property
    def prior(self):
        return Independent(Normal(self.origin, torch.ones_like(self.origin)), 1)

    def posterior(self, images):
        loc, log_scale = self.encoder(images / SHADES).chunk(2, -1)
        return Independent(Normal(loc, log_scale.exp()), 1)

    def images(self, latent):
        return Independent(Binomial(SHADES, logits=self.decoder(latent)), 1)

    def elbo(self, images):
        """A lower bound of each image's log probability, by one sample."""
        posterior = self.posterior(images)
        return self.images(posterior.rsample()).log_prob(images) - kl_divergence(posterior, self.prior)

    @torch.no_grad()
    def log_prob(self, images, samples=32):
        """A tighter bound: the logarithm of the mean of several importance weights."""
        posterior = self.posterior(images)
        latent = posterior.sample((samples,))
        weights = self.images(latent).log_prob(images) + self.prior.log_prob(latent) - posterior.log_prob(latent)
        return weights.logsumexp(0) - math.log(samples)


def show(images):
    """The images in letters, side by side."""
    shades = " .:-=+*#@"
    levels = (images.view(-1, 8, 8) * (len(shades) - 1) / SHADES).round().long()
    for rows in levels.transpose(0, 1).tolist():
        print("  ".join("".join(shades[level] for level in row) for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    images = torch.tensor(load_digits().data, dtype=torch.float32)
    train, test = random_split(TensorDataset(images), [0.85, 0.15])
    loader = DataLoader(train, batch_size=options.batch_size, shuffle=True, drop_last=True)
    held_out = torch.stack([image for (image,) in test])
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)

    step = 0
    for epoch in range(1, options.epochs + 1):
        for (batch,) in loader:
            loss = -model.elbo(batch).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if step == options.steps:
                return
        if epoch % 10 == 0:
            bound = -model.log_prob(held_out).mean().item()
            print(f"epoch {epoch}: negative ELBO {loss.item():.2f}, of the test images at most {bound:.2f} nats")

    with torch.no_grad():
        reconstructed = model.images(model.posterior(held_out[:8]).mean).mean
        drawn = model.images(model.prior.sample((8,))).mean
    for title, pictures in (("digits", held_out[:8]), ("their reconstructions", reconstructed), ("drawn", drawn)):
        print(f"--- {title}")
        show(pictures)


if __name__ == "__main__":
    main()
