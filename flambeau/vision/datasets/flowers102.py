"""Photographs of flowers. Source: torchvision.datasets.flowers102."""

from __future__ import annotations

from pathlib import Path

from .labelled import SplitFiles, missing_folder
from .matlab import read_mat
from .utils import check_integrity, download_and_extract_archive, download_url
from .vision import DAMAGED

NAMES = """
    pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily, moon orchid,
    bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle, yellow iris, globe-flower,
    purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire lily, pincushion flower, fritillary, red ginger,
    grape hyacinth, corn poppy, prince of wales feathers, stemless gentian, artichoke, sweet william, carnation, garden phlox,
    love in the mist, mexican aster, alpine sea holly, ruby-lipped cattleya, cape flower, great masterwort, siam tulip,
    lenten rose, barbeton daisy, daffodil, sword lily, poinsettia, bolero deep blue, wallflower, marigold, buttercup, oxeye daisy,
    common dandelion, petunia, wild pansy, primula, sunflower, pelargonium, bishop of llandaff, gaura, geranium, orange dahlia,
    pink-yellow dahlia?, cautleya spicata, japanese anemone, black-eyed susan, silverbush, californian poppy, osteospermum,
    spring crocus, bearded iris, windflower, tree poppy, gazania, azalea, water lily, rose, thorn apple, morning glory,
    passion flower, lotus, toad lily, anthurium, frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia,
    cyclamen, watercress, canna lily, hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow, mexican petunia,
    bromelia, blanket flower, trumpet creeper, blackberry lily
"""


class Flowers102(SplitFiles):
    """Photographs of 102 flowers that are common in Britain, 40 to 258 of each.

    Args:
        root: folder in which ``flowers-102`` holds the files.
        split: ``"train"``, ``"val"`` or ``"test"``.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the files where they are missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Flowers102.
    """

    _download_url_prefix = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
    _file_dict = {
        "image": ("102flowers.tgz", "52808999861908f626f3c1f4e79d11fa"),
        "label": ("imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
        "setid": ("setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
    }
    _FOLDER = "flowers-102"
    _MESSAGE = DAMAGED
    _SHOWN = ("split",)
    _splits_map = {"train": "trnid", "val": "valid", "test": "tstid"}
    classes = " ".join(NAMES.split()).split(", ")

    def _read(self) -> None:
        chosen = read_mat(self._path("setid"), squeeze_me=True)[self._splits_map[self._split]].tolist()
        labels = (read_mat(self._path("label"), squeeze_me=True)["labels"] - 1).tolist()
        # Images count from 1.
        self._set_samples([(self._base_folder / "jpg" / f"image_{number:05d}.jpg", labels[number - 1]) for number in chosen])

    def _path(self, part: str) -> Path:
        return self._base_folder / self._file_dict[part][0]

    def _missing(self) -> str | None:
        damaged = (str(self._path(part)) for part in ("label", "setid") if not self._is_whole(part))
        return missing_folder(self._base_folder / "jpg") or next(damaged, None)

    def _is_whole(self, part: str) -> bool:
        return check_integrity(self._path(part), self._file_dict[part][1])

    def download(self) -> None:
        """Download what is missing."""
        if self._missing() is None:
            return
        name, md5 = self._file_dict["image"]
        download_and_extract_archive(f"{self._download_url_prefix}{name}", str(self._base_folder), md5=md5)
        for part in ("label", "setid"):
            name, md5 = self._file_dict[part]
            download_url(f"{self._download_url_prefix}{name}", str(self._base_folder), md5=md5)
