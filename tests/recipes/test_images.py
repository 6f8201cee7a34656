"""Everyday programs: images in folders, data sets made up, grids of images."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from oracle_vision import torchvision
from PIL import Image

from flambeau import vision as flambeau_vision


@pytest.fixture
def vision(torch: ModuleType) -> ModuleType:
    """The library's own torchvision."""
    return flambeau_vision if torch.__name__ == "flambeau" else torchvision()


@pytest.fixture
def folder(tmp_path):
    """Three images of one level each, in two classes."""
    for name, level in (("dog/0.png", 200), ("cat/1.png", 100), ("cat/0.png", 0)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.new("L", (6, 4), level).save(path)
    return tmp_path


def test_an_image_folder_feeds_a_loader(torch, vision, folder):
    dataset = vision.datasets.ImageFolder(folder, transform=vision.transforms.ToTensor())
    images, labels = next(iter(torch.utils.data.DataLoader(dataset, batch_size=3)))
    assert images.shape == (3, 3, 4, 6) and labels.tolist() == [0, 0, 1]
    assert torch.allclose(images[:, 0, 0, 0] * 255, torch.tensor([0.0, 100, 200]))
    assert dataset.classes == ["cat", "dog"] and dataset.targets == [0, 0, 1]


def test_weights_for_classes_of_different_size(torch, vision, folder):
    targets = torch.tensor(vision.datasets.ImageFolder(folder).targets)
    weights = 1.0 / torch.bincount(targets)[targets]
    sampler = torch.utils.data.WeightedRandomSampler(weights, 400)
    drawn = targets[list(sampler)].float().mean()
    assert 0.35 < drawn < 0.65


def test_a_loader_of_ones_own(torch, vision, folder):
    def read(path):
        with Image.open(path) as picture:
            return np.array(picture)

    dataset = vision.datasets.DatasetFolder(str(folder), read, extensions=(".png",))
    levels, label = dataset[2]
    assert levels.shape == (4, 6) and levels.max() == 200 and label == 1


def test_made_up_images_stay_the_same(torch, vision):
    dataset = vision.datasets.FakeData(4, (3, 5, 5), num_classes=2, transform=vision.transforms.ToTensor())
    first, again = dataset[1], dataset[1]
    assert torch.equal(first[0], again[0]) and first[1] == again[1]
    train, test = torch.utils.data.random_split(dataset, [3, 1])
    assert len(train) == 3 and len(test) == 1


def test_a_grid_and_its_file(torch, vision, tmp_path):
    images = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 1, 2, 3) / 4
    grid = vision.utils.make_grid(images, nrow=3, padding=1, pad_value=0.5)
    assert grid.shape == (3, 7, 13) and grid[0, 1, 5] == 0.25 and grid[0, 0, 0] == 0.5
    vision.utils.save_image(images, tmp_path / "grid.png", nrow=3, padding=1)
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.size == (13, 7)
    assert vision.io.ImageReadMode.RGB.value == 3


def test_a_tensor_goes_back_to_the_picture_it_was(torch, vision):
    functional = vision.transforms.functional
    for mode, shape in (("RGB", (3, 5, 4)), ("L", (1, 5, 4)), ("RGBA", (4, 5, 4))):
        picture = Image.fromarray(np.arange(20 * shape[0], dtype=np.uint8).reshape(5, 4, -1).squeeze())
        assert picture.mode == mode
        tensor = functional.to_tensor(picture)
        assert tensor.shape == shape and tensor.dtype == torch.float32
        np.testing.assert_array_equal(np.asarray(functional.to_pil_image(tensor)), np.asarray(picture))


def test_augmentation_is_repeated_by_its_seed(torch, vision):
    T = vision.transforms
    train = T.Compose([T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.ColorJitter(0.3, 0.3), T.ToTensor()])
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    torch.manual_seed(3)
    first, second = train(picture), train(picture)
    torch.manual_seed(3)
    assert torch.equal(train(picture), first) and not torch.equal(first, second)


def test_normalized_images_are_shown_after_the_inverse(torch, vision):
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    images = torch.rand(2, 3, 4, 4)
    normalized = vision.transforms.Normalize(mean, std)(images)
    inverse = vision.transforms.Normalize((-mean / std).tolist(), (1 / std).tolist())
    assert torch.allclose(inverse(normalized), images, atol=1e-6)
    with pytest.raises(TypeError):
        vision.transforms.Normalize(mean, std)((images * 255).to(torch.uint8))


def test_ten_crops_are_averaged(torch, vision):
    T = vision.transforms
    crops = T.Compose([T.TenCrop(5), T.Lambda(lambda pictures: torch.stack([T.ToTensor()(picture) for picture in pictures]))])
    batch = crops(Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8)))
    scores = batch.flatten(1).mean(1)
    assert batch.shape == (10, 3, 5, 5) and torch.allclose(scores[:5], scores[[6, 5, 8, 7, 9]])


def test_boxes_move_with_their_image(torch, vision):
    from importlib import import_module

    v2, kinds = import_module(f"{vision.__name__}.transforms.v2"), import_module(f"{vision.__name__}.tv_tensors")
    image = torch.zeros(1, 8, 10)
    image[:, 2:5, 1:4] = 1
    boxes = kinds.BoundingBoxes([[1, 2, 4, 5]], format="XYXY", canvas_size=(8, 10))
    moved, around = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Pad(3), v2.Resize((28, 32))])(kinds.Image(image), boxes)
    (x1, y1, x2, y2), inside = around[0].tolist(), torch.zeros(1, 28, 32)
    inside[:, y1:y2, x1:x2] = 1
    assert around.canvas_size == (28, 32) and torch.allclose(moved, inside, atol=0.5)
