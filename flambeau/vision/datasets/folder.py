"""Data sets of files in one folder for each class. Source: torchvision.datasets.folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from PIL import Image

from .vision import Root, Transform, VisionDataset

__all__ = [
    *("IMG_EXTENSIONS", "DatasetFolder", "ImageFolder", "accimage_loader", "default_loader", "find_classes"),
    *("has_file_allowed_extension", "is_image_file", "make_dataset", "pil_loader"),
]

Loader = Callable[..., Any]
Extensions = str | tuple[str, ...]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: Extensions) -> bool:
    """Whether a name ends in one of these, in lower case.

    Args:
        filename: name of a file.
        extensions: an ending or several, in lower case.
    Returns:
        A bool.
    Source: torchvision.datasets.folder.has_file_allowed_extension.
    Example:
        >>> has_file_allowed_extension('a.PNG', ('.png', '.jpg'))
        True
    """
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename: str) -> bool:
    """Whether a name ends as those of images do.

    Args:
        filename: name of a file.
    Returns:
        A bool.
    Source: torchvision.datasets.folder.is_image_file.
    Example:
        >>> is_image_file('a.txt')
        False
    """
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: Root) -> tuple[list[str], dict[str, int]]:
    """The names of a folder's folders, sorted, and the index of each.

    Args:
        directory: a folder.
    Returns:
        A list of names, and a dictionary of their indices.
    Raises:
        FileNotFoundError: there is none.
    Source: torchvision.datasets.folder.find_classes.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.mkdir(f"{folder}/dog"), os.mkdir(f"{folder}/cat")
        ...     find_classes(folder)
        (None, None)
        (['cat', 'dog'], {'cat': 0, 'dog': 1})
    """
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: index for index, name in enumerate(classes)}


def make_dataset(
    directory: Root,
    class_to_idx: dict[str, int] | None = None,
    extensions: Extensions | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """The files below the folders of the classes, with the index of their class.

    Args:
        directory: folder of the classes' folders.
        class_to_idx: name and index of the classes; as :func:`find_classes` has them when None.
        extensions: endings of the files' names, in lower case, or
        is_valid_file: function of a path that says whether it is one of them.
        allow_empty: classes may have no file.
    Returns:
        Pairs of path and index, sorted by the classes' names, then by folder and file.
    Raises:
        ValueError: no class, or not exactly one of ``extensions`` and ``is_valid_file``.
        FileNotFoundError: a class without a file.
    Source: torchvision.datasets.folder.make_dataset.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pathlib.Path(folder, "cat").mkdir()
        ...     pathlib.Path(folder, "cat", "a.png").touch()
        ...     [(os.path.basename(path), index) for path, index in make_dataset(folder, extensions=".png")]
        [('a.png', 0)]
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")

    def is_wanted(path: str) -> bool:
        return is_valid_file(path) if is_valid_file is not None else has_file_allowed_extension(path, extensions or ())

    samples, filled = [], set()
    for name, index in sorted(class_to_idx.items()):
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            paths = [path for path in (os.path.join(folder, file) for file in sorted(files)) if is_wanted(path)]
            samples += [(path, index) for path in paths]
            if paths:
                filled.add(name)
    empty = sorted(class_to_idx.keys() - filled)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            message += f"Supported extensions are: {extensions if isinstance(extensions, str) else ', '.join(extensions)}"
        raise FileNotFoundError(message)
    return samples


class DatasetFolder(VisionDataset[Any]):
    """Files of any kind, in one folder for each class, or in folders below that.

    Args:
        root: folder of the classes' folders.
        loader: function of a path that gives a sample.
        extensions: endings of the files' names, in lower case, or
        is_valid_file: function of a path that says whether it is one of them.
        transform, target_transform: functions of the sample and of the index of its class.
        allow_empty: classes may have no file.
    Attributes:
        classes: their names, sorted.
        class_to_idx: index of each.
        samples: pairs of path and index.
        targets: the indices.
    Raises:
        FileNotFoundError: no class, or one without a file.
    Source: torchvision.datasets.DatasetFolder.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pathlib.Path(folder, "greetings").mkdir()
        ...     size = pathlib.Path(folder, "greetings", "a.txt").write_text("hello")
        ...     DatasetFolder(folder, lambda path: pathlib.Path(path).read_text(), (".txt",))[0]
        ('hello', 0)
    """

    def __init__(
        self,
        root: Root,
        loader: Loader,
        extensions: tuple[str, ...] | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes: list[Any]
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [index for _, index in self.samples]

    @staticmethod
    def make_dataset(
        directory: Root,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The samples; a subclass may find others. Arguments as for the function :func:`make_dataset`."""
        if class_to_idx is None:  # the function would look for classes by itself, not by a subclass's method
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions=extensions, is_valid_file=is_valid_file, allow_empty=allow_empty)

    def find_classes(self, directory: Root) -> tuple[list[str], dict[str, int]]:
        """The classes and the index of each; a subclass may find others. See the function :func:`find_classes`."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: Root) -> Any:
    """Pillow's image of a file, in red, green and blue.

    Args:
        path: of a file.
    Returns:
        Pillow's image.
    Source: torchvision.datasets.folder.pil_loader.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("L", (4, 3)).save(f"{folder}/a.png")
        ...     pil_loader(f"{folder}/a.png").mode
        'RGB'
    """
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def accimage_loader(path: Root) -> Any:
    """The image of a file by the package accimage; Pillow's where that fails.

    Args:
        path: of a file.
    Returns:
        An image.
    Source: torchvision.datasets.folder.accimage_loader.
    Example:
        >>> accimage_loader(f"{root}/cat.png").size
        (6, 5)
    """
    import accimage  # type: ignore[import-not-found]

    try:
        return accimage.Image(path)
    except OSError:
        return pil_loader(path)


def default_loader(path: Root) -> Any:
    """The image of a file, by Pillow.

    Args:
        path: of a file.
    Returns:
        An image.
    Source: torchvision.datasets.folder.default_loader.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("L", (4, 3)).save(f"{folder}/a.png")
        ...     default_loader(f"{folder}/a.png").mode
        'RGB'
    """
    return pil_loader(path)


class ImageFolder(DatasetFolder):
    """Images in one folder for each class, or in folders below that.

    Args:
        root: folder of the classes' folders.
        transform, target_transform: functions of the image and of the index of its class.
        loader: function of a path that gives an image.
        is_valid_file: function of a path that says whether it is an image; by the ending of its name when None.
        allow_empty: classes may have no image.
    Attributes:
        classes: their names, sorted.
        class_to_idx: index of each.
        imgs: pairs of path and index.
    Raises:
        FileNotFoundError: no class, or one without an image.
    Source: torchvision.datasets.ImageFolder.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.mkdir(f"{folder}/cat")
        ...     Image.new("L", (4, 3)).save(f"{folder}/cat/a.png")
        ...     len(ImageFolder(folder)), ImageFolder(folder).classes
        (1, ['cat'])
    """

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples
