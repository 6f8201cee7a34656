"""Every data set of ``vision.datasets`` in small: its folders and files in their true formats, and the archives that it comes in."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import struct
import sys
import tarfile
import types
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.io
import scipy.sparse
from PIL import Image

RANDOM = np.random.default_rng(0)
Packed = str | tuple[str, ...] | Callable[[Path], bytes]


@dataclass(frozen=True)
class Case:
    """A data set in small.

    Attributes:
        name: of its class.
        build: writes its files below a folder.
        options: arguments beside the folder, for each object to compare.
        packed: what a server gives, by the last part of the URL: a file; a folder and what of it an archive holds; a function.
        attributes: beside the samples, what has to be equal.
    """

    name: str
    build: Callable[[Path], None]
    options: tuple[dict[str, Any], ...] = ({},)
    packed: dict[str, Packed] = field(default_factory=dict)
    attributes: str = ""


# -- writing --------------------------------------------------------------------------------------------------------------
def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] = (6, 5)) -> None:
    """A file with an image of noise, of the format that its name says."""
    count = len(mode) if mode in ("RGB", "RGBA") else 1
    levels = RANDOM.integers(0, 256, (size[1], size[0], count), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(levels if count > 1 else levels[..., 0]).save(path)


def pictures(folder: Path, *names: str, mode: str = "RGB") -> None:
    for name in names:
        picture(folder / name, mode)


def deep_picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RANDOM.integers(1, 1 << 16, (5, 6)).astype(np.uint16)).save(path)


def deep_png(values: Any, color: int, interlaced: int = 0) -> bytes:
    """A PNG file with 16 bits a channel, each row with the next of the five filters."""
    height, width, count = values.shape
    rows = values.astype(">u2").reshape(height, -1).view(np.uint8).astype(int)
    step, packed, above = 2 * count, bytearray(), np.zeros(rows.shape[1], int)
    for idx, row in enumerate(rows):
        left, corner = np.r_[[0] * step, row[:-step]], np.r_[[0] * step, above[:-step]]
        total = left + above - corner
        distance = np.abs(total - np.stack([left, above, corner]))
        paeth = np.choose(distance.argmin(0), [left, above, corner])
        guesses = [0, left, above, (left + above) // 2, paeth]
        packed += bytes([idx % 5]) + ((row - guesses[idx % 5]) % 256).astype(np.uint8).tobytes()
        above = row
    header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, interlaced)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    data = zlib.compress(bytes(packed))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data[:20]) + chunk(b"IDAT", data[20:]) + chunk(b"IEND", b"")


def float_map(path: Path, channels: int = 1) -> None:
    values = RANDOM.standard_normal((5, 6, channels)).astype("<f4")
    write(path, f"{'PF' if channels == 3 else 'Pf'}\n6 5\n-1.0\n".encode() + values.tobytes())


def flow(path: Path) -> None:
    write(path, b"PIEH" + struct.pack("<ii", 6, 5) + RANDOM.standard_normal((5, 6, 2)).astype("<f4").tobytes())


def matlab(path: Path, **values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(path, values)


def packed(root: Path, name: str, what: Packed) -> bytes:
    """The content of what a server gives under a name."""
    if callable(what):
        return what(root)
    if isinstance(what, str):
        content = (root / what).read_bytes()
        if name == os.path.basename(what):
            return content
        return gzip.compress(content, 1) if name.endswith(".gz") else lzma.compress(content)
    folder, *members = what
    memory = io.BytesIO()
    paths = sorted(path for member in members or os.listdir(root / folder) for path in entries(root / folder / member))
    if name.endswith(".zip"):
        with zipfile.ZipFile(memory, "w") as archive:
            for path in paths:
                archive.write(path, path.relative_to(root / folder))
    else:
        with tarfile.open(fileobj=memory, mode="w" if name.endswith(".tar") else "w:gz") as archive:
            for path in paths:
                archive.add(path, path.relative_to(root / folder))
    return memory.getvalue()


def entries(path: Path) -> list[Path]:
    return [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]


# -- arrays ---------------------------------------------------------------------------------------------------------------
def idx(path: Path, values: Any, kind: int = 8) -> None:
    write(path, bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes())


def mnist(name: str) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        for part, count in (("train", 5), ("t10k", 3)):
            idx(root / name / "raw" / f"{part}-images-idx3-ubyte", RANDOM.integers(0, 256, (count, 4, 5), np.uint8))
            idx(root / name / "raw" / f"{part}-labels-idx1-ubyte", RANDOM.integers(0, 10, count).astype(np.uint8))

    return build


def emnist(root: Path) -> None:
    for split in ("letters", "digits"):
        for part in ("train", "test"):
            start = root / "EMNIST" / "raw" / f"emnist-{split}-{part}"
            idx(Path(f"{start}-images-idx3-ubyte"), RANDOM.integers(0, 256, (4, 5, 5), np.uint8))
            idx(Path(f"{start}-labels-idx1-ubyte"), RANDOM.integers(0, 10, 4).astype(np.uint8))


def emnist_archive(root: Path) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for path in entries(root / "EMNIST" / "raw"):
            archive.writestr(f"gzip/{path.name}.gz", gzip.compress(path.read_bytes(), 1))
        archive.writestr("gzip/readme.txt", "")
    return memory.getvalue()


def qmnist(root: Path) -> None:
    for name, count in (("qmnist-train", 3), ("qmnist-test", 4), ("xnist", 2)):
        idx(root / "QMNIST" / "raw" / f"{name}-images-idx3-ubyte", RANDOM.integers(0, 256, (count, 4, 5), np.uint8))
        idx(root / "QMNIST" / "raw" / f"{name}-labels-idx2-int", RANDOM.integers(0, 9, (count, 8)).astype(">i4"), 12)


def cifar(folder: str, names: list[str], meta: str, key: str, labels: str) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        for name in names:
            batch = {"data": RANDOM.integers(0, 256, (2, 3072), np.uint8), labels: RANDOM.integers(0, 3, 2).tolist()}
            write(root / folder / name, pickle.dumps(batch, protocol=2))
        write(root / folder / meta, pickle.dumps({key: ["cat", "dog", "tree"]}, protocol=2))

    return build


def svhn(root: Path) -> None:
    for split in ("train", "test", "extra"):
        matlab(root / f"{split}_32x32.mat", X=RANDOM.integers(0, 256, (32, 32, 3, 4), np.uint8), y=np.array([[1], [10], [3], [9]]))


def stl10(root: Path) -> None:
    folder = root / "stl10_binary"
    for part, count in (("train", 4), ("test", 2), ("unlabeled", 3)):
        write(folder / f"{part}_X.bin", RANDOM.integers(0, 256, (count, 3, 96, 96), np.uint8).tobytes())
        write(folder / f"{part}_y.bin", (np.arange(count, dtype=np.uint8) + 1).tobytes())
    write(folder / "class_names.txt", "airplane\nbird\ncar\n")
    write(folder / "fold_indices.txt", "0 2\n3 1 \n" + "1\n" * 8)


def semeion(root: Path) -> None:
    rows = np.concatenate([RANDOM.integers(0, 2, (3, 256)), np.eye(10, dtype=int)[[3, 0, 9]]], 1)
    write(root / "semeion.data", "\n".join(" ".join(f"{value:.4f}" for value in row) for row in rows))


def usps(root: Path) -> None:
    for name in ("usps.bz2", "usps.t.bz2"):
        rows = [f"{label} " + " ".join(f"{i + 1}:{v:.4f}" for i, v in enumerate(RANDOM.uniform(-1, 1, 256))) for label in (7, 10, 1)]
        write(root / name, bz2.compress("\n".join(rows).encode()))


def moving_mnist(root: Path) -> None:
    (root / "MovingMNIST").mkdir(parents=True)
    np.save(root / "MovingMNIST" / "mnist_test_seq.npy", RANDOM.integers(0, 256, (20, 3, 4, 4), np.uint8))


def fer2013(*files: str) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        rows = [(label, " ".join(map(str, RANDOM.integers(0, 256, 48 * 48)))) for label in (3, 0, 6)]
        usages = ["Training", "PublicTest", "PrivateTest"]
        contents = {
            "fer2013.csv": "emotion,pixels,Usage\n" + "".join(f"{e},{p},{u}\n" for (e, p), u in zip(rows, usages)),
            "icml_face_data.csv": "emotion, Usage, pixels\n" + "".join(f"{e},{u},{p}\n" for (e, p), u in zip(rows, usages)),
            "train.csv": "emotion,pixels\n" + "".join(f"{e},{p}\n" for e, p in rows),
            "test.csv": "pixels\n" + "".join(f"{p}\n" for _, p in rows),
        }
        for name in files:
            write(root / "fer2013" / name, contents[name])

    return build


# -- lists of files -------------------------------------------------------------------------------------------------------
def omniglot(root: Path) -> None:
    for part in ("images_background", "images_evaluation"):
        for name in ("Greek/character01/0001_01.png", "Greek/character01/0001_02.png", "Latin/character01/0002_01.png"):
            picture(root / "omniglot-py" / part / name, "L")
        write(root / "omniglot-py" / f"{part}.zip", packed(root, f"{part}.zip", ("omniglot-py", part)))


def photo_tour(root: Path) -> None:
    folder = root / "notredame"
    picture(folder / "patches0000.bmp", "L", (128, 128))
    picture(folder / "patches0001.bmp", "L", (64, 128))
    write(folder / "info.txt", "".join(f"{point} 0\n" for point in (5, 5, 9, 7, 7, 1)))
    write(folder / "m50_100000_100000_0.txt", "0 5 0 1 5 0 0\n2 9 0 3 7 0 0\n")


def caltech101(root: Path) -> None:
    base = root / "caltech101"
    for name in ("BACKGROUND_Google", "Faces", "ant"):
        pictures(base / "101_ObjectCategories" / name, "image_0001.jpg", "image_0002.jpg")
        folder = base / "Annotations" / {"Faces": "Faces_2"}.get(name, name)
        for number in (1, 2):
            matlab(folder / f"annotation_{number:04d}.mat", obj_contour=RANDOM.random((2, 4)))


def caltech101_archive(root: Path) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name in ("101_ObjectCategories", "Annotations"):
            archive.writestr(f"caltech-101/{name}.tar.gz", packed(root, f"{name}.tar.gz", ("caltech101", name)))
    return memory.getvalue()


def caltech256(root: Path) -> None:
    for number, name in enumerate(("001.ak47", "002.flag"), start=1):
        folder = root / "caltech256" / "256_ObjectCategories" / name
        pictures(folder, f"{number:03d}_0001.jpg", f"{number:03d}_0002.jpg")
        write(folder / "notes.txt", "")


def voc(root: Path) -> None:
    for year in ("2007", "2012"):
        base = root / "VOCdevkit" / f"VOC{year}"
        names = ["000001", "000002", "000003"]
        for name in names:
            picture(base / "JPEGImages" / f"{name}.jpg")
            picture(base / "SegmentationClass" / f"{name}.png", "L")
            box = "<bndbox><xmin>1</xmin><ymax> 4 </ymax><ymin>2</ymin><xmax>5</xmax></bndbox>"
            objects = f"<object><name>cat</name>{box}<part>a</part><part>b</part></object>" * (1 + (name == "000002"))
            write(base / "Annotations" / f"{name}.xml", f"<annotation><folder>x</folder><owner/>{objects}</annotation>")
        for kind in ("Main", "Segmentation"):
            for part, chosen in (("train", names[:2]), ("val", names[2:]), ("trainval", names), ("test", names[1:])):
                write(base / "ImageSets" / kind / f"{part}.txt", "\n".join(chosen) + "\n")


def food101(root: Path) -> None:
    base = root / "food-101"
    for part, numbers in (("train", (1, 2)), ("test", (3,))):
        names = {name: [f"{name}/{number}" for number in numbers] for name in ("waffles", "apple_pie")}
        write(base / "meta" / f"{part}.json", json.dumps(names))
        for images in names.values():
            pictures(base / "images", *(f"{image}.jpg" for image in images))


def flowers102(root: Path) -> None:
    base = root / "flowers-102"
    pictures(base / "jpg", *(f"image_{number:05d}.jpg" for number in range(1, 7)))
    matlab(base / "imagelabels.mat", labels=np.array([[77, 1, 102, 5, 5, 9]]))
    matlab(base / "setid.mat", trnid=np.array([[1, 4]]), valid=np.array([[2, 6]]), tstid=np.array([[3, 5]]))


def dtd(root: Path) -> None:
    base = root / "dtd" / "dtd"
    for part, names in (("train1", ("dotted/a.jpg", "banded/b.jpg")), ("val1", ("dotted/c.jpg",)), ("test7", ("banded/d.jpg",))):
        write(base / "labels" / f"{part}.txt", "\n".join(names) + "\n")
        pictures(base / "images", *names)


def aircraft(root: Path) -> None:
    base = root / "fgvc-aircraft-2013b" / "data"
    names = {"variants": ("737-200", "A 320"), "families": ("Boeing 737", "A320"), "manufacturers": ("Boeing", "Airbus")}
    for level, file in (("variant", "variants"), ("family", "families"), ("manufacturer", "manufacturers")):
        write(base / f"{file}.txt", "\n".join(names[file]) + "\n")
        for split in ("trainval", "test"):
            write(base / f"images_{level}_{split}.txt", f"0034309 {names[file][1]}\n0034958 {names[file][0]}\n")
    pictures(base / "images", "0034309.jpg", "0034958.jpg")


def gtsrb(root: Path) -> None:
    base = root / "gtsrb"
    pictures(base / "GTSRB" / "Training", "00000/00000_00000.ppm", "00000/00000_00001.ppm", "00001/00000_00000.ppm")
    pictures(base / "GTSRB" / "Final_Test" / "Images", "00000.ppm", "00001.ppm")
    write(base / "GT-final_test.csv", "Filename;Width;Height;ClassId\n00000.ppm;6;5;16\n00001.ppm;6;5;1\n")


def pets(root: Path) -> None:
    base = root / "oxford-iiit-pet"
    names = {"Abyssinian_1": "1 1 1", "great_pyrenees_12": "2 2 1", "Abyssinian_2": "1 1 2"}
    for split in ("trainval", "test"):
        write(base / "annotations" / f"{split}.txt", "".join(f"{name} {numbers}\n" for name, numbers in names.items()))
    pictures(base / "images", *(f"{name}.jpg" for name in names))
    pictures(base / "annotations" / "trimaps", *(f"{name}.png" for name in names), mode="L")


def sst2(root: Path) -> None:
    for part in ("train", "valid", "test"):
        pictures(root / "rendered-sst2" / part, "negative/1.png", "positive/2.png", "positive/3.png")


def cars(root: Path) -> None:
    base = root / "stanford_cars"
    kind = [("bbox_x1", "O"), ("class", "O"), ("fname", "O")]
    for path, folder in (("devkit/cars_train_annos.mat", "cars_train"), ("cars_test_annos_withlabels.mat", "cars_test")):
        matlab(base / path, annotations=np.array([(39, 2, "00001.jpg"), (36, 1, "00002.jpg")], dtype=kind))
        pictures(base / folder, "00001.jpg", "00002.jpg")
    matlab(base / "devkit" / "cars_meta.mat", class_names=np.array(["AM General Hummer", "Acura RL"], dtype=object))


def sun397(root: Path) -> None:
    base = root / "SUN397"
    write(base / "ClassName.txt", "/a/abbey\n/a/apartment_building/outdoor\n")
    pictures(base, "a/abbey/sun_aa.jpg", "a/apartment_building/outdoor/sun_bb.jpg", "a/abbey/sun_cc.jpg")


def clevr(root: Path) -> None:
    base = root / "clevr" / "CLEVR_v1.0"
    for part in ("train", "val", "test"):
        names = [f"CLEVR_{part}_{number:06d}.png" for number in range(2)]
        pictures(base / "images" / part, *names)
        scenes = [{"image_filename": name, "objects": [{}] * (3 + number)} for number, name in enumerate(names)]
        write(base / "scenes" / f"CLEVR_{part}_scenes.json", json.dumps({"scenes": scenes}))


def imagenette(root: Path) -> None:
    for folder in ("imagenette2", "imagenette2-160"):
        for part in ("train", "val"):
            pictures(root / folder / part, "n01440764/a.jpeg", "n03000684/b.jpeg", "n03000684/c.jpeg")


def eurosat(root: Path) -> None:
    pictures(root / "eurosat" / "2750", "Forest/Forest_1.jpg", "AnnualCrop/AnnualCrop_1.jpg", "Forest/Forest_2.jpg")


def country211(root: Path) -> None:
    for part in ("train", "valid", "test"):
        pictures(root / "country211" / part, "FR/a.jpg", "AD/b.jpg")


def places365(root: Path) -> None:
    write(root / "categories_places365.txt", "/a/airfield 0\n/z/zen_garden 1\n")
    write(root / "places365_train_standard.txt", "/a/airfield/1.jpg 0\n/z/zen_garden/2.jpg 1\n")
    write(root / "places365_val.txt", "v1.jpg 1\nv2.jpg 0\n")
    write(root / "places365_test.txt", "t1.jpg\nt2.jpg\n")
    pictures(root / "data_256_standard", "a/airfield/1.jpg", "z/zen_garden/2.jpg")
    pictures(root / "val_large", "v1.jpg", "v2.jpg")
    pictures(root / "test_256", "t1.jpg", "t2.jpg")


def places365_archive(root: Path) -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as archive:
        archive.add(root / "data_256_standard", "data_256")
    return memory.getvalue()


def inaturalist(root: Path) -> None:
    names = ["00000_Animalia_Chordata_Aves_A_B_C_d", "00001_Animalia_Chordata_Mammalia_A_E_F_g", "00002_Plantae_P_Q_R_S_T_u"]
    pictures(root / "2021_valid", *(f"{name}/1.jpg" for name in names))
    for version, folders in (("2017", ("Aves/Corvus corax", "Plantae/Rosa")), ("2019", ("Birds/1", "Birds/0", "Plants/2"))):
        pictures(root / version, *(f"{folder}/x.jpg" for folder in folders))


# -- boxes, masks, captions -----------------------------------------------------------------------------------------------
def coco(root: Path) -> None:
    pictures(root, "b.jpg", "a.jpg")
    annotations = [
        {"id": number, "image_id": image, "caption": f"caption {number}", "bbox": [1, 2, 3, 4]}
        for number, image in ((7, 3), (8, 1), (9, 3))
    ]
    images = [{"id": 3, "file_name": "b.jpg"}, {"id": 1, "file_name": "a.jpg"}]
    write(root / "annotations.json", json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cat"}]}))


def sbd(root: Path) -> None:
    for number, part in enumerate(("train", "val", "train_noval")):
        name = f"2008_00000{number}"
        write(root / f"{part}.txt", f"{name}\n")
        picture(root / "img" / f"{name}.jpg")
        write(root / "inst" / f"{name}.txt", "")
        boundaries = np.empty((20, 1), object)
        for row in range(20):
            boundaries[row, 0] = scipy.sparse.csc_matrix(RANDOM.integers(0, 2, (5, 6)).astype(float))
        segmentation = RANDOM.integers(0, 21, (5, 6), np.uint8)
        matlab(root / "cls" / f"{name}.mat", GTcls={"Boundaries": boundaries, "Segmentation": segmentation, "CategoriesPresent": 3})


def sbu(root: Path) -> None:
    pictures(root / "dataset", "4385058960_b0f291553e.jpg", "3_x.jpg")
    urls = ["http://static.flickr.com/4385058960_b0f291553e.jpg", "http://static.flickr.com/gone.jpg", "http://static.flickr.com/3_x.jpg"]
    write(root / "dataset" / "SBU_captioned_photo_dataset_urls.txt", "\n".join(urls) + "\n")
    write(root / "dataset" / "SBU_captioned_photo_dataset_captions.txt", "A wooden chair\nGone\nA dog \n")
    texts = [f"dataset/SBU_captioned_photo_dataset_{what}.txt" for what in ("urls", "captions")]
    write(root / "SBUCaptionedPhotoDataset.tar.gz", packed(root, "a.tar.gz", ("", *texts)))


def flickr(root: Path) -> None:
    pictures(root, "1000_a.jpg", "2000_b.jpg")
    rows = [
        f'<tr><td><a href="x">http://flickr.com/photos/u/{n}/</a></td><td><ul><li>One {n}</li><li> Two</li></ul></td></tr>'
        for n in (2000, 1000)
    ]
    write(root / "captions.html", f"<html><a>a/b/c</a><table>{''.join(rows)}<tr><td>Image Not Found</td><li>no</li></tr></table></html>")
    write(root / "captions.txt", "2000_b.jpg#0\tA dog\n1000_a.jpg#0\tA cat\n2000_b.jpg#1\tThe dog\n")


def kitti(root: Path) -> None:
    base = root / "Kitti" / "raw"
    line = "Car 0.00 1 -1.5 587.01 173.33 614.12 200.12 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n"
    for name in ("000000", "000001"):
        picture(base / "training" / "image_2" / f"{name}.png")
        picture(base / "testing" / "image_2" / f"{name}.png")
        write(base / "training" / "label_2" / f"{name}.txt", line * (1 + (name == "000001")))


def wider_face(root: Path) -> None:
    base = root / "widerface"
    names = ["0--Parade/a.jpg", "1--Handshaking/b.jpg"]
    for part in ("train", "val", "test"):
        pictures(base / f"WIDER_{part}" / "images", *names)
        text = f"{names[0]}\n2\n1 2 3 4 0 1 0 2 0 1 \n5 6 7 8 1 0 1 0 1 0 \n{names[1]}\n0\n0 0 0 0 0 0 0 0 0 0 \n"
        write(base / "wider_face_split" / f"wider_face_{part}_bbx_gt.txt", text)
    write(base / "wider_face_split" / "wider_face_test_filelist.txt", "\n".join(names) + "\n")


def cityscapes(root: Path) -> None:
    for start in ("aachen/aachen_000000_000019", "aachen/aachen_000001_000019", "bonn/bonn_000000_000019"):
        picture(root / "leftImg8bit" / "train" / f"{start}_leftImg8bit.png")
        for mode in ("gtFine", "gtCoarse"):
            pictures(root / mode / "train", f"{start}_{mode}_instanceIds.png", f"{start}_{mode}_labelIds.png", mode="L")
            picture(root / mode / "train" / f"{start}_{mode}_color.png", "RGBA")
            write(root / mode / "train" / f"{start}_{mode}_polygons.json", '{"objects": [{"label": "road"}]}')


def celeba(root: Path) -> None:
    base = root / "celeba"
    names = [f"{number:06d}.jpg" for number in range(1, 7)]
    pictures(base / "img_align_celeba", *names)
    parts = dict(zip(names, (0, 1, 2, 0, 1, 2)))
    write(base / "list_eval_partition.txt", "".join(f"{name} {part}\n" for name, part in parts.items()))
    write(base / "identity_CelebA.txt", "".join(f"{name} {part + 100}\n" for name, part in parts.items()))
    write(base / "list_attr_celeba.txt", "4\nBald Young \n" + "".join(f"{name} -1  1\n" for name in names))
    write(base / "list_bbox_celeba.txt", "4\nimage_id x_1 y_1 width height\n" + "".join(f"{name}    95  71 226 313\n" for name in names))
    write(base / "list_landmarks_align_celeba.txt", "4\nlefteye_x lefteye_y\n" + "".join(f"{name} 69  109\n" for name in names))


def lfw(root: Path) -> None:
    base = root / "lfw-py"
    for folder in ("lfw_funneled", "lfw"):
        for name, count in (("Ann_B", 2), ("Carl_D", 3)):
            pictures(base / folder / name, *(f"{name}_{number:04d}.jpg" for number in range(1, count + 1)))
    for name in ("lfw-funneled.tgz", "lfw.tgz"):
        write(base / name, b"")
    write(base / "lfw-names.txt", "Ann_B\t2\nCarl_D\t3\n")
    write(base / "people.txt", "2\n1\nAnn_B\t2\n1\nCarl_D\t3\n")
    write(base / "peopleDevTrain.txt", "2\nAnn_B\t2\nCarl_D\t3\n")
    write(base / "pairs.txt", "2\t1\n" + "Ann_B\t1\t2\nAnn_B\t1\tCarl_D\t3\n" * 2)
    write(base / "pairsDevTest.txt", "2\nAnn_B\t1\t2\nCarl_D\t1\t2\nAnn_B\t1\tCarl_D\t3\nCarl_D\t2\tAnn_B\t2\n")


# -- motion and depth -----------------------------------------------------------------------------------------------------
def sintel(root: Path) -> None:
    base = root / "Sintel"
    for name in ("clean", "final"):
        pictures(base / "training" / name / "alley_1", "frame_0001.png", "frame_0002.png", "frame_0003.png")
        pictures(base / "test" / name / "market_4", "frame_0001.png", "frame_0002.png")
        for side in ("left", "right"):
            pictures(base / "training" / f"{name}_{side}" / "alley_1", "frame_0001.png")
    for number in (1, 2):
        flow(base / "training" / "flow" / "alley_1" / f"frame_{number:04d}.flo")
    picture(base / "training" / "disparities" / "alley_1" / "frame_0001.png")
    for kind in ("occlusions", "outofframe"):
        picture(base / "training" / kind / "alley_1" / "frame_0001.png", "L")


def kitti_flow(root: Path) -> None:
    for part in ("training", "testing"):
        pictures(root / "KittiFlow" / part / "image_2", "000000_10.png", "000000_11.png", "000001_10.png", "000001_11.png")


def flying_chairs(root: Path) -> None:
    base = root / "FlyingChairs"
    write(base / "FlyingChairs_train_val.txt", "1\n2\n1\n")
    for number in (1, 2, 3):
        pictures(base / "data", f"{number:05d}_img1.ppm", f"{number:05d}_img2.ppm")
        flow(base / "data" / f"{number:05d}_flow.flo")


def flying_things(root: Path) -> None:
    base = root / "FlyingThings3D"
    for side in ("left", "right"):
        for number in (6, 7, 8):
            for name in ("clean", "final"):
                picture(base / f"frames_{name}pass" / "TRAIN" / "A" / "0000" / side / f"{number:04d}.png")
            for direction in ("into_future", "into_past"):
                float_map(base / "optical_flow" / "TRAIN" / "A" / "0000" / direction / side / f"Flow_{number:04d}.pfm", 3)


def hd1k(root: Path) -> None:
    base = root / "hd1k"
    pictures(base / "hd1k_challenge" / "image_2", "000000_10.png", "000000_11.png")


def stereo(folder: str, images: tuple[str, str], shifts: tuple[str, ...], write_shift: Callable[[Path], None]) -> Callable[[Path], None]:
    """Left and right images and their shifts, in two scenes or under two names."""

    def build(root: Path) -> None:
        for scene in ("a", "b"):
            pictures(root / folder, *(name.format(scene) for name in images))
            for name in shifts:
                write_shift(root / folder / name.format(scene))

    return build


def kitti_stereo(root: Path) -> None:
    for part in ("training", "testing"):
        for name in ("000000_10.png", "000001_10.png"):
            for folder in ("colored_0", "colored_1"):
                picture(root / "Kitti2012" / part / folder / name)
            for folder in ("image_2", "image_3"):
                picture(root / "Kitti2015" / part / folder / name)
            for folder in ("Kitti2012/training/disp_noc", "Kitti2015/training/disp_occ_0", "Kitti2015/training/disp_occ_1"):
                deep_picture(root / folder / name)


def middlebury(root: Path) -> None:
    for scene in ("train/Piano-perfect", "train/Piano-imperfect", "test/Plants"):
        folder = root / "Middlebury2014" / scene
        pictures(folder, "im0.png", "im1.png")
        float_map(folder / "disp0.pfm")
        float_map(folder / "disp1.pfm")


def cre_stereo(root: Path) -> None:
    for kind in ("shapenet", "reflective", "tree", "hole"):
        pictures(root / "CREStereo" / kind, "0_left.jpg", "0_right.jpg")
        for side in ("left", "right"):
            picture(root / "CREStereo" / kind / f"0_{side}.disp.png", "L")


def falling_things(root: Path) -> None:
    for folder in ("single/thing/kitchen_0", "mixed/kitchen_0"):
        base = root / "FallingThings" / folder
        for side in ("left", "right"):
            picture(base / f"000000.{side}.jpg")
            deep_picture(base / f"000000.{side}.depth.png")
        write(base / "_camera_settings.json", '{"camera_settings": [{"intrinsic_settings": {"fx": 768.16}}]}')


def scene_flow(root: Path) -> None:
    for scene in ("FlyingThings3D/{}/TRAIN/A/0000", "Monkaa/{}/family_x2"):
        for side in ("left", "right"):
            for name in ("clean", "final"):
                picture(root / "SceneFlow" / scene.format(f"frames_{name}pass") / side / "0006.png")
            float_map(root / "SceneFlow" / scene.format("disparity") / side / "0006.pfm")


def eth3d(root: Path) -> None:
    for scene in ("delivery_area_1l", "forest_2s"):
        for part in ("two_view_training", "two_view_test"):
            pictures(root / "ETH3D" / part / scene, "im0.png", "im1.png", mode="L")
        float_map(root / "ETH3D" / "two_view_training_gt" / scene / "disp0GT.pfm")
        picture(root / "ETH3D" / "two_view_training_gt" / scene / "mask0nocc.png", "L")


def image_net(root: Path) -> None:
    """The three archives, with two classes and a group of both."""
    kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    rows = [(1, "n02", "dog, hound", "a dog", 0), (2, "n01", "cat", "a cat", 0), (3, "n00", "animal", "an animal", 2)]
    folder = root / "source" / "ILSVRC2012_devkit_t12" / "data"
    matlab(folder / "meta.mat", synsets=np.array(rows, dtype=kind))
    write(folder / "ILSVRC2012_validation_ground_truth.txt", "2\n1\n2\n")
    write(root / "ILSVRC2012_devkit_t12.tar.gz", packed(root, "a.tar.gz", ("source",)))
    for wnid in ("n01", "n02"):
        pictures(root / "pictures" / wnid, f"{wnid}_1.JPEG", f"{wnid}_2.JPEG")
        write(root / "train_archives" / f"{wnid}.tar", packed(root, "a.tar", (f"pictures/{wnid}",)))
    write(root / "ILSVRC2012_img_train.tar", packed(root, "a.tar", ("train_archives",)))
    pictures(root / "val_pictures", *(f"ILSVRC2012_val_0000000{number}.JPEG" for number in (1, 2, 3)))
    write(root / "ILSVRC2012_img_val.tar", packed(root, "a.tar", ("val_pictures",)))


def lsun(root: Path) -> None:
    pictures(root, "tower_val_lmdb/a.webp", "tower_val_lmdb/b.webp", "kitchen_val_lmdb/c.webp", "test_lmdb/d.webp")


def pcam(root: Path) -> None:
    """Files of NumPy's, which ``ArrayFile`` reads."""
    (root / "pcam").mkdir()
    for part, values in (("x", np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)), ("y", np.array([0, 1]).reshape(2, 1, 1, 1))):
        with open(root / "pcam" / f"camelyonpatch_level_2_split_test_{part}.h5", "wb") as file:
            np.savez(file, **{part: values})


# -- packages that some of them are read by --------------------------------------------------------------------------------
class Database:
    """As much of LMDB's interface as is needed."""

    def __init__(self, root: str, **options: Any) -> None:
        self.content = {path.name.encode(): path.read_bytes() for path in sorted(Path(root).iterdir())}

    def begin(self, write: bool) -> Database:
        return self

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def stat(self) -> dict[str, int]:
        return {"entries": len(self.content)}

    def cursor(self) -> Database:
        return self

    def iternext(self, keys: bool, values: bool) -> Any:
        return iter(self.content)

    def get(self, key: bytes) -> bytes:
        return self.content[key]


class ArrayFile:
    """As much of h5py's interface as is needed, on files of NumPy's."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def __enter__(self) -> Any:
        return np.load(self.path)

    def __exit__(self, *error: object) -> None:
        pass


def no_image(path: Any) -> None:
    raise OSError(path)


STAND_INS: Any = {
    "accimage": types.SimpleNamespace(Image=no_image),
    "gdown": types.SimpleNamespace(download=lambda id, output, **options: write(Path(output), id)),
    "h5py": types.SimpleNamespace(File=ArrayFile),
    "lmdb": types.SimpleNamespace(open=Database),
}


# -- all of them ----------------------------------------------------------------------------------------------------------
def mnist_files(name: str) -> dict[str, Packed]:
    kinds = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return {f"{kind}.gz": f"{name}/raw/{kind}" for kind in kinds}


PARTS = ({}, {"train": False})
SPLITS = ({}, {"split": "test"})
THREE_SPLITS = (*SPLITS, {"split": "val"})
BATCHES = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
CLASSES = "classes class_to_idx"
MNISTS = f"data targets {CLASSES}"
TYPES = ["category", "binary-category", "segmentation"]

CASES = [
    Case("MNIST", mnist("MNIST"), PARTS, mnist_files("MNIST"), MNISTS),
    Case("FashionMNIST", mnist("FashionMNIST"), PARTS, mnist_files("FashionMNIST"), MNISTS),
    Case("KMNIST", mnist("KMNIST"), PARTS, mnist_files("KMNIST"), MNISTS),
    Case("EMNIST", emnist, ({"split": "letters"}, {"split": "digits", "train": False}), {"gzip.zip": emnist_archive}, MNISTS),
    Case(
        "QMNIST",
        qmnist,
        ({}, {"train": False}, {"what": "nist", "compat": False}, {"what": "test10k"}),
        {f"qmnist-train-{kind}.gz": f"QMNIST/raw/qmnist-train-{kind}" for kind in ("images-idx3-ubyte", "labels-idx2-int")},
        MNISTS,
    ),
    Case(
        "CIFAR10",
        cifar("cifar-10-batches-py", BATCHES, "batches.meta", "label_names", "labels"),
        PARTS,
        {"cifar-10-python.tar.gz": ("",)},
        f"data targets {CLASSES}",
    ),
    Case(
        "CIFAR100",
        cifar("cifar-100-python", ["train", "test"], "meta", "fine_label_names", "fine_labels"),
        PARTS,
        {"cifar-100-python.tar.gz": ("",)},
        f"data targets {CLASSES}",
    ),
    Case("SVHN", svhn, (*SPLITS, {"split": "extra"}), {"train_32x32.mat": "train_32x32.mat"}, "data labels"),
    Case(
        "STL10",
        stl10,
        (*SPLITS, {"folds": 1}, {"split": "unlabeled"}, {"split": "train+unlabeled"}),
        {"stl10_binary.tar.gz": ("",)},
        "data labels classes",
    ),
    Case("SEMEION", semeion, ({"download": False},), {"semeion.data": "semeion.data"}, "data labels"),
    Case("USPS", usps, PARTS, {"usps.bz2": "usps.bz2"}, "data targets"),
    Case(
        "MovingMNIST",
        moving_mnist,
        (*SPLITS, {"split": "train", "split_ratio": 4}),
        {"mnist_test_seq.npy": "MovingMNIST/mnist_test_seq.npy"},
        "data",
    ),
    Case("FER2013", fer2013("fer2013.csv", "train.csv"), SPLITS),
    Case("FER2013", fer2013("icml_face_data.csv"), SPLITS),
    Case("FER2013", fer2013("train.csv", "test.csv"), SPLITS),
    Case("Omniglot", omniglot, ({}, {"background": False}), {"images_background.zip": "omniglot-py/images_background.zip"}, "_characters"),
    Case(
        "PhotoTour",
        photo_tour,
        ({"name": "notredame"}, {"name": "notredame", "train": False}),
        {"notredame.zip": ("notredame", "patches0000.bmp", "patches0001.bmp", "info.txt", "m50_100000_100000_0.txt")},
        "data labels matches mean std",
    ),
    Case(
        "Caltech101",
        caltech101,
        ({}, {"target_type": ["category", "annotation"]}),
        {"caltech-101.zip": caltech101_archive},
        "categories annotation_categories index y",
    ),
    Case("Caltech256", caltech256, ({},), {"256_ObjectCategories.tar": ("caltech256", "256_ObjectCategories")}, "categories index y"),
    Case(
        "VOCSegmentation",
        voc,
        ({}, {"year": "2007", "image_set": "test"}, {"image_set": "trainval"}),
        {"VOCtrainval_11-May-2012.tar": ("",)},
        "images masks",
    ),
    Case("VOCDetection", voc, ({}, {"image_set": "val"}), {"VOCtrainval_11-May-2012.tar": ("",)}, "images annotations"),
    Case("Food101", food101, SPLITS, {"food-101.tar.gz": ("",)}, f"{CLASSES} _labels _image_files"),
    Case(
        "Flowers102",
        flowers102,
        THREE_SPLITS,
        {"102flowers.tgz": ("flowers-102", "jpg")} | {name: f"flowers-102/{name}" for name in ("imagelabels.mat", "setid.mat")},
        "classes _labels _image_files",
    ),
    Case("DTD", dtd, ({}, {"split": "val"}, {"split": "test", "partition": 7}), {"dtd-r1.0.1.tar.gz": ("dtd",)}, CLASSES),
    Case(
        "FGVCAircraft",
        aircraft,
        (*SPLITS, {"annotation_level": "family"}, {"annotation_level": "manufacturer"}),
        {"fgvc-aircraft-2013b.tar.gz": ("",)},
        CLASSES,
    ),
    Case("GTSRB", gtsrb, SPLITS, {"GTSRB-Training_fixed.zip": ("gtsrb", "GTSRB")}, "_samples"),
    Case(
        "OxfordIIITPet",
        pets,
        (*SPLITS, {"target_types": TYPES}, {"target_types": []}),
        {f"{name}.tar.gz": ("oxford-iiit-pet", name) for name in ("images", "annotations")},
        f"{CLASSES} bin_classes bin_class_to_idx",
    ),
    Case("RenderedSST2", sst2, THREE_SPLITS, {"rendered-sst2.tgz": ("",)}, CLASSES),
    Case("StanfordCars", cars, SPLITS, {}, CLASSES),
    Case("SUN397", sun397, ({},), {"SUN397.tar.gz": ("",)}, CLASSES),
    Case("CLEVRClassification", clevr, THREE_SPLITS, {"CLEVR_v1.0.zip": ("clevr",)}, "_labels"),
    Case(
        "Imagenette",
        imagenette,
        ({}, {"split": "val", "size": "160px"}),
        {"imagenette2.tgz": ("", "imagenette2")},
        f"{CLASSES} wnids wnid_to_idx",
    ),
    Case("EuroSAT", eurosat, ({},), {"EuroSAT.zip": ("eurosat",)}, f"{CLASSES} targets"),
    Case("Country211", country211, (*SPLITS, {"split": "valid"}), {"country211.tgz": ("",)}, f"{CLASSES} targets"),
    Case(
        "Places365",
        places365,
        ({"small": True}, {"split": "val"}, {"split": "test", "small": True}),
        {
            "filelist_places365-standard.tar": ("", "categories_places365.txt", "places365_train_standard.txt"),
            "train_256_places365standard.tar": places365_archive,
        },
        f"{CLASSES} imgs targets",
    ),
    Case(
        "INaturalist",
        inaturalist,
        (
            {"version": "2021_valid", "target_type": ["full", "kingdom", "order", "genus"]},
            {"version": "2017", "target_type": ["full", "super"]},
            {"version": "2019"},
        ),
        {},
        "all_categories categories_index categories_map index",
    ),
    Case("SBDataset", sbd, ({}, {"image_set": "val", "mode": "segmentation"}, {"image_set": "train_noval"}), {}, "images masks"),
    Case("SBU", sbu, ({"download": False},), {}, "photos captions"),
    Case("Kitti", kitti, PARTS, {f"data_object_{n}.zip": ("Kitti/raw", f"training/{n}") for n in ("image_2", "label_2")}, "images targets"),
    Case("WIDERFace", wider_face, THREE_SPLITS),
    Case(
        "Cityscapes",
        cityscapes,
        ({}, {"mode": "coarse", "target_type": ["semantic", "color", "polygon"]}, {"target_type": "polygon"}),
        {},
        "images targets classes",
    ),
    Case(
        "CelebA",
        celeba,
        (
            {},
            {"split": "ALL", "target_type": ["identity", "bbox", "landmarks"]},
            {"split": "valid", "target_type": []},
            {"split": "test", "target_type": "identity"},
        ),
        {},
        "filename attr identity bbox landmarks_align attr_names",
    ),
    Case("LFWPeople", lfw, ({}, {"split": "train", "image_set": "original"}), {}, "class_to_idx data targets"),
    Case("LFWPairs", lfw, ({}, {"split": "test"}), {}, "pair_names data targets"),
    Case("Sintel", sintel, (*SPLITS, {"pass_name": "both"})),
    Case("KittiFlow", kitti_flow, ({"split": "test"},)),
    Case("FlyingChairs", flying_chairs, ({}, {"split": "val"})),
    Case("FlyingThings3D", flying_things, ({}, {"pass_name": "both", "camera": "right"})),
    Case("HD1K", hd1k, ({"split": "test"},)),
    Case(
        "CarlaStereo",
        stereo("carla-highres/trainingF", ("{}/im0.png", "{}/im1.png"), ("{}/disp0GT.pfm", "{}/disp1GT.pfm"), float_map),
    ),
    Case("Kitti2012Stereo", kitti_stereo, SPLITS),
    Case("Kitti2015Stereo", kitti_stereo, SPLITS),
    Case("Middlebury2014Stereo", middlebury, ({}, {"calibration": "both"}, {"split": "test", "calibration": None})),
    Case("CREStereo", cre_stereo),
    Case("FallingThingsStereo", falling_things, ({}, {"variant": "both"})),
    Case("SceneFlowStereo", scene_flow, ({}, {"variant": "Monkaa", "pass_name": "both"})),
    Case("SintelStereo", sintel, ({}, {"pass_name": "both"})),
    Case(
        "InStereo2k",
        stereo("InStereo2k/train", ("{}/left.png", "{}/right.png"), ("{}/left_disp.png", "{}/right_disp.png"), deep_picture),
    ),
    Case("ETH3DStereo", eth3d, SPLITS),
]

OTHERS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(("CocoDetection", "CocoCaptions"), coco),
    **dict.fromkeys(("Flickr8k", "Flickr30k"), flickr),
    **dict.fromkeys(("LSUN", "LSUNClass"), lsun),
    "ImageNet": image_net,
    "PCAM": pcam,
    "accimage_loader": lambda root: picture(root / "cat.png"),
    "download_file_from_google_drive": lambda root: None,
    "wrap_dataset_for_transforms_v2": voc,
}
BUILDERS = {case.name: case.build for case in reversed(CASES)} | OTHERS


@contextlib.contextmanager
def filled(name: str, root: Path) -> Iterator[None]:
    """A folder with the files of a data set, always the same, as long as its class is used; checksums are not looked at."""
    global RANDOM
    RANDOM = np.random.default_rng(0)
    BUILDERS[name](root)
    with patch.dict(sys.modules, STAND_INS), patch("flambeau.vision.datasets.utils.check_md5", lambda *args, **options: True):
        yield
