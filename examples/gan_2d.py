"""A generative adversarial network on the plane: learn to draw points from a ring of eight Gaussians.

An ordinary PyTorch program. `python -m flambeau examples/gan_2d.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import math

import torch
from torch import nn

MODES, RADIUS, SPREAD = 8, 2.0, 0.1


def real_points(count):
    """``count`` points of the ring, each near one of the eight centres."""
    angle = torch.randint(0, MODES, (count,)) * (2 * math.pi / MODES)
    centres = RADIUS * torch.stack([angle.cos(), angle.sin()], dim=1)
    return centres + SPREAD * torch.randn(count, 2)


def mlp(inputs, hidden, outputs):
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, outputs),
    )


def quality(points):
    """The share of points within four standard deviations of a centre, and how many centres have at least one in a hundred points."""
    angle = torch.arange(MODES) * (2 * math.pi / MODES)
    centres = RADIUS * torch.stack([angle.cos(), angle.sin()], dim=1)
    distance, nearest = torch.cdist(points, centres).min(dim=1)
    close = distance < 4 * SPREAD
    counts = torch.bincount(nearest[close], minlength=MODES)
    return close.float().mean().item(), int((counts >= len(points) // 100).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    noise_size = 8
    generator, discriminator = mlp(noise_size, 64, 2), mlp(2, 64, 1)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    ones, zeros = torch.ones(options.batch_size, 1), torch.zeros(options.batch_size, 1)

    for step in range(1, options.steps + 1):
        real = real_points(options.batch_size)
        fake = generator(torch.randn(options.batch_size, noise_size))

        optimizer_d.zero_grad()
        loss_real = criterion(discriminator(real), ones)
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        loss_d = loss_real + loss_fake
        loss_d.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        optimizer_g.step()

        if step <= 20:
            print(f"step {step} loss {loss_d.item():.7f} {loss_g.item():.7f}")
        elif step % 1000 == 0:
            with torch.no_grad():
                share, modes = quality(generator(torch.randn(1000, noise_size)))
            print(f"after {step} steps: losses {loss_d.item():.4f} {loss_g.item():.4f}, {share:.1%} on the ring, {modes} of {MODES} modes")


if __name__ == "__main__":
    main()
