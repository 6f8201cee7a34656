"""Find drawn squares, circles and triangles: a RetinaNet over a few convolutions, its boxes drawn into a picture.

An ordinary PyTorch program. `python -m flambeau examples/detector.py` runs it on flambeau, `python` on PyTorch with torchvision.
"""

import argparse

import torch
from torch import nn
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import box_iou
from torchvision.utils import draw_bounding_boxes, save_image

SIZE = 64
NAMES = ["square", "circle", "triangle"]
COLORS = ["red", "lime", "cyan"]


def drawn_shape(kind, centre, radius):
    """Which pixels a shape covers, and its box."""
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    x, y = x + 0.5 - centre[0], y + 0.5 - centre[1]
    if kind == 0:
        mask = (x.abs() <= radius) & (y.abs() <= radius)
    elif kind == 1:
        mask = x * x + y * y <= radius * radius
    else:
        mask = (y.abs() <= radius) & (2 * x.abs() <= y + radius)
    rows, columns = torch.where(mask)
    return mask, [float(columns.min()), float(rows.min()), float(columns.max()) + 1, float(rows.max()) + 1]


def scene(max_shapes=3):
    """An image of a few shapes on a noisy ground, and their boxes and labels."""
    image = torch.rand(3, 1, 1) * 0.3 + torch.rand(3, SIZE, SIZE) * 0.15
    boxes, labels = [], []
    for _ in range(int(torch.randint(1, max_shapes + 1, ()))):
        kind, radius = int(torch.randint(0, len(NAMES), ())), 6 + 7 * torch.rand(())
        centre = radius + (SIZE - 2 * radius) * torch.rand(2)
        mask, box = drawn_shape(kind, centre, radius)
        if boxes and box_iou(torch.tensor([box]), torch.tensor(boxes)).max() > 0.1:
            continue
        image = torch.where(mask, 0.4 + 0.6 * torch.rand(3, 1, 1), image)
        boxes.append(box)
        labels.append(kind + 1)
    return image.clamp(0, 1), {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels)}


class Backbone(nn.Module):
    """One feature map, an eighth as large as the image."""

    out_channels = 64

    def __init__(self):
        super().__init__()
        layers = []
        for inputs, outputs, stride in ((3, 32, 2), (32, 64, 2), (64, 64, 2), (64, self.out_channels, 1)):
            layers += [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images):
        return self.layers(images)


def detector():
    anchors = AnchorGenerator(sizes=((12, 17, 24),), aspect_ratios=((1.0,),))
    return RetinaNet(
        Backbone(),
        num_classes=len(NAMES) + 1,
        min_size=SIZE,
        max_size=SIZE,
        image_mean=[0.3, 0.3, 0.3],
        image_std=[0.25, 0.25, 0.25],
        anchor_generator=anchors,
        score_thresh=0.4,
        detections_per_img=10,
    )


def counts(model, scenes):
    """Shapes, shapes found (the right label, and an overlap above one half), and boxes that are no shape's."""
    shapes = found = wrong = 0
    model.eval()
    with torch.no_grad():
        for result, (_, target) in zip(model([image for image, _ in scenes]), scenes):
            overlap = box_iou(target["boxes"], result["boxes"])
            right = (overlap > 0.5) & (target["labels"][:, None] == result["labels"])
            shapes += len(target["labels"])
            found += int(right.any(dim=1).sum())
            wrong += int((~right.any(dim=0)).sum())
    model.train()
    return shapes, found, wrong


def picture(model, scenes, path):
    """Scenes with the boxes that were found in them."""
    images = []
    model.eval()
    with torch.no_grad():
        for result, (image, _) in zip(model([image for image, _ in scenes]), scenes):
            large = image.repeat_interleave(3, dim=1).repeat_interleave(3, dim=2)
            labels = [NAMES[label - 1] for label in result["labels"]]
            colors = [COLORS[label - 1] for label in result["labels"]]
            images.append(draw_bounding_boxes(large, result["boxes"] * 3, labels, colors=colors, width=2) if labels else large)
    save_image(images, path, nrow=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="detector.png", help="the picture")
    parser.add_argument("--no-picture", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    held_out = [scene() for _ in range(64)]
    model = detector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=max(options.steps, 100), pct_start=0.3)

    for step in range(1, options.steps + 1):
        images, targets = zip(*(scene() for _ in range(options.batch_size)))
        losses = model(list(images), list(targets))
        optimizer.zero_grad()
        sum(losses.values()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step <= 20:
            print(f"step {step} loss {losses['classification'].item():.7f} {losses['bbox_regression'].item():.7f}")
        elif step % 100 == 0:
            shapes, found, wrong = counts(model, held_out)
            values = " ".join(f"{name} {loss.item():.3f}" for name, loss in losses.items())
            print(f"after {step} steps: {values}; {found} of {shapes} shapes found, {wrong} boxes too many")
    if not options.no_picture:
        picture(model, held_out[:12], options.out)
        print(f"drawn into {options.out}")


if __name__ == "__main__":
    main()
