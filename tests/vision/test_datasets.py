"""Data sets in small, in their true formats: read as torchvision reads them, downloaded from a server of the tests' own."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import pickle
import sys
import tarfile
import types
import urllib.request
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from oracle_vision import torchvision
from PIL import Image
from small_datasets import CASES, STAND_INS, Case, coco, deep_png, flickr, image_net, lsun, packed, pcam, picture, pictures, write

import flambeau
from flambeau.vision import datasets
from flambeau.vision.datasets import utils

IDS = [f"{case.name}{number if case.name == 'FER2013' else ''}" for number, case in enumerate(CASES)]


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torchvision().datasets


def plain(value: Any) -> Any:
    """Images, tensors of either library and arrays as lists, with their kind; containers of these."""
    if isinstance(value, Image.Image):
        return value.mode, value.size, value.tobytes()
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist() if value.dtype == object else value.tobytes()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else tuple(map(plain, value))
    return str(value) if isinstance(value, Path) else value


def samples(dataset: Any) -> list[Any]:
    return [plain(dataset[index]) for index in range(len(dataset))]


@pytest.fixture
def _any_checksum(monkeypatch):
    """What was made in small has other checksums."""
    monkeypatch.setattr(utils, "check_md5", lambda *args, **options: True)
    if "torchvision" in sys.modules:
        monkeypatch.setattr(sys.modules["torchvision.datasets.utils"], "check_md5", lambda *args, **options: True)


def assert_alike(found: Any, expected: Any, attributes: str = "") -> None:
    assert len(found) == len(expected) > 0
    assert samples(found) == samples(expected)
    assert repr(found) == repr(expected)
    for name in attributes.split():
        assert plain(getattr(found, name)) == plain(getattr(expected, name)), name


# torchvision leaves some files to the collector of garbage.
not_closed_by_torchvision = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# -- every data set -------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
@not_closed_by_torchvision
@pytest.mark.usefixtures("_any_checksum")
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_samples_are_torchvisions(theirs, built, case):
    root = built(case)
    for options in case.options:
        # As text: torchvision joins some folders as strings.
        found = getattr(datasets, case.name)(str(root), **options)
        assert_alike(found, getattr(theirs, case.name)(str(root), **options), case.attributes)


@pytest.mark.usefixtures("_any_checksum")
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_folders_may_be_paths_and_samples_transformed(built, case):
    root, options = built(case), case.options[0]
    dataset = getattr(datasets, case.name)(root, **options)
    names = inspect.signature(type(dataset)).parameters
    if "transform" not in names and case.name not in ("EMNIST", "QMNIST"):
        return
    changed = getattr(datasets, case.name)(root, **options, transform=lambda image: "image")
    sample = changed[0]
    assert sample == "image" if isinstance(sample, str) else sample[0] == "image"
    if "target_transform" in names or case.name in ("EMNIST", "QMNIST"):
        changed = getattr(datasets, case.name)(root, **options, target_transform=lambda target: ("target", target))
        assert changed[0][-1][0] == "target" and len(changed) == len(dataset)
        assert "StandardTransform\nTarget transform: <function" in repr(changed)


@pytest.mark.parametrize("case", [case for case in CASES if case.packed], ids=lambda case: case.name)
def test_downloads(built, files, monkeypatch, tmp_path, case):
    root, options = built(case), {**case.options[0], "download": True}
    members = {hashlib.md5(path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()}
    for name, what in case.packed.items():
        files.content[name] = packed(root, name, what)
    known = members | {hashlib.md5(content).hexdigest() for content in files.content.values()}
    monkeypatch.setattr(utils, "check_md5", lambda path, md5: utils.calculate_md5(path) in known)
    monkeypatch.setattr(
        utils, "Request", lambda url, headers: urllib.request.Request(f"{files.url}/{os.path.basename(url)}", headers=headers)
    )
    kind = getattr(datasets, case.name)
    files.cuts = {list(files.content)[-1]: [20, 5] if case.name == "MNIST" else [20]}  # which has two mirrors
    with pytest.raises(RuntimeError, match="the connection was cut"):
        kind(tmp_path, **options)
    found = kind(tmp_path, **options)
    assert any("Range" in headers for _, headers in files.requests)
    assert samples(found) == samples(kind(root, **case.options[0])) or "listdir" in inspect.getsource(kind)
    assert not [path for path in tmp_path.rglob("*") if ".partial" in path.name or ".extracting" in path.name]
    count = len(files.requests)
    assert len(kind(tmp_path, **options)) == len(found) and len(files.requests) == count  # nothing is fetched again


@pytest.mark.parametrize("case", [case for case in CASES if case.packed], ids=lambda case: case.name)
def test_what_is_missing_is_named(tmp_path, case, request):
    options = {**case.options[0], "download": False}
    with pytest.raises(RuntimeError) as ours:
        getattr(datasets, case.name)(tmp_path, **options)
    assert str(tmp_path) in str(ours.value)
    if case.name not in ("USPS", "PhotoTour"):  # where torchvision opens the missing file
        theirs = request.getfixturevalue("theirs")
        with pytest.raises(RuntimeError) as expected:
            getattr(theirs, case.name)(tmp_path, **options)
        assert str(ours.value).startswith(str(expected.value))


@pytest.mark.oracle
def test_names_tables_and_signatures_are_torchvisions(theirs):
    assert datasets.__all__ == theirs.__all__
    for name in set(theirs.__all__) - {"wrap_dataset_for_transforms_v2", "Kinetics", "HMDB51", "UCF101"}:
        ours, expected = getattr(datasets, name), getattr(theirs, name)
        found, wanted = (inspect.signature(kind).parameters for kind in (ours, expected))
        assert list(found) == list(wanted), name
        for key, parameter in wanted.items():
            assert key == "loader" or found[key].default == parameter.default, (name, key)
        for key, value in vars(expected).items():
            if key.startswith("__") or callable(value) or isinstance(value, property | staticmethod | classmethod):
                continue
            if key.startswith("_") and not hasattr(ours, key):
                continue
            assert plain(getattr(ours, key)) == plain(value), (name, key)
    for module, table in (
        ("voc", "DATASET_YEAR_DICT"),
        ("imagenet", "ARCHIVE_META"),
        ("inaturalist", "DATASET_MD5"),
        ("inaturalist", "DATASET_URLS"),
    ):
        ours, expected = (
            sys.modules[f"{library}.vision.datasets.{module}".replace("torchvision.vision", "torchvision")]
            for library in ("flambeau", "torchvision")
        )
        assert getattr(ours, table) == getattr(expected, table)


def test_films_say_that_there_is_no_decoder():
    with pytest.raises(NotImplementedError, match="Kinetics is not supported"):
        datasets.Kinetics("folder", 8)


# -- folders of images ----------------------------------------------------------------------------------------------------
def folder_of_images(root: Path) -> None:
    pictures(root, "dog/b.png", "dog/deeper/a.JPG", "cat/x.webp", "cat/y.bmp")
    picture(root / "cat" / "gray.png", "L")
    write(root / "cat" / "notes.txt", "no image")
    write(root / "readme.md", "")


@pytest.mark.oracle
def test_image_folders(theirs, tmp_path):
    folder_of_images(tmp_path)
    found, expected = datasets.ImageFolder(tmp_path), theirs.ImageFolder(tmp_path)
    assert_alike(found, expected, "classes class_to_idx samples imgs targets extensions")
    (tmp_path / "empty").mkdir()
    for options in ({}, {"allow_empty": True}, {"is_valid_file": lambda path: path.endswith(".txt")}):
        outcomes = []
        for library in (datasets, theirs):
            try:
                outcomes.append(library.ImageFolder(tmp_path, **options).samples)
            except FileNotFoundError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    for library in (datasets, theirs):
        folder = library.DatasetFolder(str(tmp_path), os.path.basename, extensions=(".png", ".txt"), allow_empty=True)
        assert [folder[index] for index in range(len(folder))] == [("gray.png", 0), ("notes.txt", 0), ("b.png", 1)]
        with pytest.raises(ValueError, match="Both extensions and is_valid_file"):
            library.folder.make_dataset(tmp_path)
        with pytest.raises(ValueError, match="must have at least one entry"):
            library.folder.make_dataset(tmp_path, {}, extensions=".png")
        with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
            library.ImageFolder(tmp_path / "empty")
        assert library.folder.is_image_file("A.PNG") and not library.folder.is_image_file("a.txt")


def test_accimage_loads_what_it_can(tmp_path, monkeypatch):
    picture(tmp_path / "a.png")

    def load(path):
        if path.name != "a.jpg":
            raise OSError
        return "image"

    monkeypatch.setitem(sys.modules, "accimage", types.SimpleNamespace(Image=load))
    assert datasets.folder.accimage_loader(tmp_path / "a.jpg") == "image"
    assert datasets.folder.accimage_loader(tmp_path / "a.png").size == datasets.folder.default_loader(tmp_path / "a.png").size == (6, 5)


@pytest.mark.oracle
def test_fake_data(theirs):
    for options in ({}, {"image_size": (1, 5, 6), "random_offset": 7, "num_classes": 3}, {"image_size": (4, 2, 2)}):
        options = {"size": 3, "image_size": (3, 4, 5), **options}
        flambeau.manual_seed(3)
        assert_alike(datasets.FakeData(**options), theirs.FakeData(**options))
        after = flambeau.rand(1)
        flambeau.manual_seed(3)
        assert after == flambeau.rand(1)  # the stream goes on where it was
    with pytest.raises(IndexError):
        datasets.FakeData(2)[2]


@pytest.mark.oracle
def test_transforms_and_repr(theirs):
    class Scale:
        def __repr__(self):
            return "Scale(\n    2\n)"

    for library in (datasets, theirs):
        dataset = library.FakeData(2, (3, 2, 2), transform=Scale(), target_transform=Scale())
        assert repr(dataset) == (
            "Dataset FakeData\n    Number of datapoints: 2\n    StandardTransform\nTransform: Scale(\n               2\n           )\n"
            "Target transform: Scale(\n                      2\n                  )"
        )
        assert library.vision.StandardTransform(lambda x: x + 1, lambda y: -y)(1, 2) == (2, -2)
        with pytest.raises(ValueError, match="Only transforms or transform"):
            library.VisionDataset("root", transforms=Scale(), transform=Scale())
        with pytest.raises(NotImplementedError):
            library.VisionDataset("root")[0]
    assert datasets.VisionDataset("~/x").root == os.path.expanduser("~/x")


# -- data sets that need something more -----------------------------------------------------------------------------------
@pytest.mark.oracle
def test_coco(theirs, tmp_path, monkeypatch):
    coco(tmp_path)
    # torchvision asks for pycocotools; what stands in for it here has its names.
    package = types.ModuleType("pycocotools.coco")
    package.COCO = datasets.coco.AnnotationFile
    for name in ("CocoDetection", "CocoCaptions"):
        ours = getattr(datasets, name)(tmp_path, tmp_path / "annotations.json")
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "pycocotools", types.ModuleType("pycocotools"))
            patch.setitem(sys.modules, "pycocotools.coco", package)
            assert_alike(ours, getattr(theirs, name)(tmp_path, tmp_path / "annotations.json"), "ids")
            assert isinstance(getattr(datasets, name)(tmp_path, tmp_path / "annotations.json").coco, datasets.coco.AnnotationFile)
    assert ours[1][1] == ["caption 7", "caption 9"]
    assert ours.coco.getCatIds() == [1] and ours.coco.loadCats(1)[0]["name"] == "cat" and ours.coco.getAnnIds() == [7, 9, 8]
    assert ours.coco.getImgIds() == [3, 1]
    with pytest.raises(ValueError, match="Index must be of type integer"):
        ours[flambeau.tensor(0)]
    write(tmp_path / "damaged.json", '{"images": [')
    with pytest.raises(RuntimeError, match="damaged.json is damaged"):
        datasets.CocoDetection(tmp_path, tmp_path / "damaged.json")


@pytest.mark.oracle
def test_flickr(theirs, tmp_path):
    flickr(tmp_path)
    for name, file in (("Flickr8k", "captions.html"), ("Flickr30k", "captions.txt")):
        arguments = (str(tmp_path), str(tmp_path / file))
        assert_alike(getattr(datasets, name)(*arguments), getattr(theirs, name)(*arguments), "ids")
    os.remove(tmp_path / "1000_a.jpg")
    with pytest.raises(RuntimeError, match="missing"):
        datasets.Flickr8k(tmp_path, tmp_path / "captions.html")


@pytest.mark.oracle
@not_closed_by_torchvision
def test_lsun(theirs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lmdb", STAND_INS["lmdb"])
    lsun(tmp_path)
    for number, (root, classes) in enumerate([(str(tmp_path), ["tower_val", "kitchen_val"]), (str(tmp_path), "test")]):
        results = []
        for place, library in (("first", datasets), ("first", theirs), ("second", theirs), ("second", datasets)):
            (tmp_path / f"{place}{number}").mkdir(exist_ok=True)
            monkeypatch.chdir(tmp_path / f"{place}{number}")  # keys are kept in the current folder; each library reads the other's
            results.append(library.LSUN(root, classes))
        for dataset in results[1:]:
            assert_alike(results[0], dataset, "classes indices length")
    for classes in ("lake", ["tower"], ["lake_val"], ["tower_tree"], [3], 3):
        messages = []
        for library in (datasets, theirs):
            with pytest.raises(ValueError) as error:
                library.LSUN(str(tmp_path), classes)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


@pytest.mark.oracle
def test_pcam(theirs, tmp_path, monkeypatch):
    with pytest.raises(RuntimeError, match="h5py"):
        datasets.PCAM(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", STAND_INS["h5py"])
    pcam(tmp_path)
    assert_alike(datasets.PCAM(tmp_path, "test"), theirs.PCAM(tmp_path, "test"))
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.PCAM(tmp_path)


@pytest.mark.oracle
@pytest.mark.usefixtures("_any_checksum")
def test_image_net(theirs, tmp_path):
    image_net(tmp_path)
    attributes = "wnids wnid_to_idx classes class_to_idx targets split_folder"
    for split in ("train", "val"):
        ours = datasets.ImageNet(tmp_path, split)
        assert_alike(ours, theirs.ImageNet(tmp_path, split), attributes)  # on what was unpacked here
    assert ours.classes == [("cat",), ("dog", "hound")] and ours.targets == [0, 0, 1]
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} >= {"train", "val"}
    for name in ("meta.bin", "ILSVRC2012_devkit_t12.tar.gz"):
        os.remove(tmp_path / name)
        if name == "meta.bin":
            continue
        with pytest.raises(RuntimeError, match="You need to download it externally"):
            datasets.ImageNet(tmp_path)
        with pytest.raises(RuntimeError, match="The meta file"):
            datasets.imagenet.load_meta_file(tmp_path)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("MNIST", "CIFAR10", "SVHN", "USPS", "VOCDetection")], ids=lambda c: c.name
)
@pytest.mark.usefixtures("_any_checksum")
def test_damaged_files_are_named(tmp_path, case):
    case.build(tmp_path)
    names = ("train-images-idx3-ubyte", "data_batch_1", "train_32x32.mat", "usps.bz2", "000001.xml")
    path = next(path for path in tmp_path.rglob("*") if path.name in names and "VOC2007" not in path.parts)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises((RuntimeError, ValueError), match=path.name):
        getattr(datasets, case.name)(tmp_path)[0]


def test_pickled_batches_run_nothing(tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    write(tmp_path / "batch", pickle.dumps(Attack()))
    with pytest.raises(RuntimeError, match="expected arrays and containers"):
        datasets.cifar.read_pickle(str(tmp_path / "batch"))
    assert not (tmp_path / "made").exists()


@pytest.mark.usefixtures("_any_checksum")
def test_old_names_and_files_of_mnist(tmp_path):
    case = next(case for case in CASES if case.name == "MNIST")
    case.build(tmp_path)
    dataset = datasets.MNIST(tmp_path)
    with pytest.warns(UserWarning, match="train_labels has been renamed targets"):
        assert dataset.train_labels is dataset.targets
    with pytest.warns(UserWarning, match="test_data has been renamed data"):
        assert dataset.test_data is dataset.data
    os.makedirs(tmp_path / "MNIST" / "processed")
    for name in ("training.pt", "test.pt"):
        flambeau.save((flambeau.zeros(2, 3, 3, dtype=flambeau.uint8), flambeau.tensor([4, 5])), tmp_path / "MNIST" / "processed" / name)
    assert datasets.MNIST(tmp_path)[1][1] == 5


def test_every_mirror_is_tried(files, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.MNIST, "mirrors", [f"{files.url}/first/", f"{files.url}/second/"])
    with pytest.raises(RuntimeError, match=r"(?s)Error downloading train-images.*Tried .*first/, got:\nHTTP Error 404.*second/"):
        datasets.MNIST(tmp_path, download=True)


# -- downloads ------------------------------------------------------------------------------------------------------------
CONTENT = bytes(range(256)) * 100
MD5 = hashlib.md5(CONTENT).hexdigest()


def test_a_file_is_downloaded_once(files, tmp_path):
    files.content["data.bin"] = CONTENT
    for _ in range(2):
        utils.download_url(f"{files.url}/data.bin", tmp_path / "new" / "folder", md5=MD5)
    utils.download_url(f"{files.url}/data.bin", tmp_path, "other.bin")
    assert (tmp_path / "new" / "folder" / "data.bin").read_bytes() == (tmp_path / "other.bin").read_bytes() == CONTENT
    assert len(files.requests) == 2 and files.requests[0][1]["User-Agent"] == "pytorch/vision"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["data.bin", "other.bin"]


@pytest.mark.parametrize(("md5", "modified"), [(MD5, None), (None, 1.7e9), (MD5, 1.7e9)])
def test_a_download_goes_on_where_it_broke_off(files, tmp_path, md5, modified):
    files.content["data.bin"], files.modified = CONTENT, modified
    files.cuts["data.bin"] = [1000, 500]
    for size in (1000, 1500):
        with pytest.raises(RuntimeError, match="the connection was cut"):
            utils.download_url(f"{files.url}/data.bin", tmp_path, md5=md5)
        assert not (tmp_path / "data.bin").exists() and (tmp_path / "data.bin.partial").stat().st_size == size
    utils.download_url(f"{files.url}/data.bin", tmp_path, md5=md5)
    assert [headers.get("Range") for _, headers in files.requests] == [None, "bytes=1000-", "bytes=1500-"]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and os.listdir(tmp_path) == ["data.bin"]


def test_the_beginning_of_another_file_is_not_gone_on_with(files, tmp_path):
    files.content["data.bin"] = CONTENT
    write(tmp_path / "data.bin.partial", b"x" * 1000)
    utils.download_url(f"{files.url}/data.bin", tmp_path, md5=MD5)  # the checksum tells
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and len(files.requests) == 2
    files.modified = 1.7e9
    write(tmp_path / "new.bin.partial", b"x" * 1000)
    utils.download_url(f"{files.url}/data.bin", tmp_path, "new.bin")  # the server tells
    assert (tmp_path / "new.bin").read_bytes() == CONTENT and len(files.requests) == 3
    for size in (len(CONTENT), len(CONTENT) + 5):  # whole already, or longer
        write(tmp_path / f"{size}.partial", (CONTENT + b"12345")[:size])
        utils.download_url(f"{files.url}/data.bin", tmp_path, str(size), md5=MD5)
        assert (tmp_path / str(size)).read_bytes() == CONTENT
    files.takes_ranges = False
    write(tmp_path / "last.partial", CONTENT[:1000])
    utils.download_url(f"{files.url}/data.bin", tmp_path, "last", md5=MD5)
    assert (tmp_path / "last").read_bytes() == CONTENT


def test_what_is_wrong_does_not_appear(files, tmp_path):
    files.content["data.bin"] = CONTENT
    with pytest.raises(RuntimeError, match="File not found or corrupted"):
        utils.download_url(f"{files.url}/data.bin", tmp_path, md5="0" * 32)
    with pytest.raises(urllib.error.HTTPError, match="404") as error:
        utils.download_url(f"{files.url}/missing.bin", tmp_path)
    assert error.value.__notes__ == [f"while downloading {files.url}/missing.bin"]
    with pytest.raises(urllib.error.URLError):
        utils.download_url("http://127.0.0.1:1/x", tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("locks", [True, False])
def test_a_damaged_file_is_replaced(files, tmp_path, monkeypatch, locks):
    if not locks:
        monkeypatch.setattr(utils, "fcntl", None)
    files.content["data.bin"] = CONTENT
    write(tmp_path / "data.bin", CONTENT[:-1])
    utils.download_url(f"{files.url}/data.bin", tmp_path, md5=MD5)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and os.listdir(tmp_path) == ["data.bin"]


def test_redirects_are_followed_and_counted(files, tmp_path):
    files.content["data.bin"] = CONTENT
    files.redirects = {f"{number}": f"{files.url}/{number - 1 or 'data.bin'}" for number in range(1, 6)}
    utils.download_url(f"{files.url}/3", tmp_path)
    assert (tmp_path / "3").read_bytes() == CONTENT
    with pytest.raises(RecursionError, match="exceeded 3 redirects. The last redirect points to"):
        utils.download_url(f"{files.url}/4", tmp_path)
    utils.download_url(f"{files.url}/4", tmp_path, max_redirect_hops=4)


def test_processes_that_want_the_same_file_wait_for_one_another(files, tmp_path):
    import threading

    files.content["data.bin"] = CONTENT
    threads = [threading.Thread(target=utils.download_url, args=(f"{files.url}/data.bin", tmp_path), kwargs={"md5": MD5}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files.requests) == 1 and os.listdir(tmp_path) == ["data.bin"]


def test_files_of_google_drive_come_by_gdown(files, tmp_path, monkeypatch):
    url = "https://drive.google.com/file/d/1hbzc_P1FuxMkcabkgn9ZKinBwW683j45/view"
    assert utils._get_google_drive_file_id(url) == "1hbzc_P1FuxMkcabkgn9ZKinBwW683j45"
    assert utils._get_google_drive_file_id("https://example.com/file/d/1/view") is None
    with pytest.raises(RuntimeError, match="pip install gdown"):
        utils.download_file_from_google_drive("x", tmp_path)

    def download(id: str, output: str, quiet: bool, user_agent: str) -> None:
        write(Path(output), CONTENT if id == "right" else b"")

    monkeypatch.setitem(sys.modules, "gdown", types.SimpleNamespace(download=download))
    for _ in range(2):
        utils.download_file_from_google_drive("right", tmp_path, "a.bin", MD5)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    with pytest.raises(RuntimeError, match="File not found or corrupted"):
        utils.download_file_from_google_drive("wrong", tmp_path, md5=MD5)


# -- archives -------------------------------------------------------------------------------------------------------------
def archive_of(name: str, members: dict[str, bytes]) -> bytes:
    memory = io.BytesIO()
    if name.endswith(".zip"):
        import zipfile

        with zipfile.ZipFile(memory, "w") as archive:
            for path, content in members.items():
                archive.writestr(path, content)
        return memory.getvalue()
    mode = {".tar": "w", ".bz2": "w:bz2", ".xz": "w:xz", ".tbz": "w:bz2"}.get(Path(name).suffix, "w:gz")
    with tarfile.open(fileobj=memory, mode=mode) as archive:
        for path, content in members.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return memory.getvalue()


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tbz", "a.tar.xz"])
def test_archives_are_unpacked_beside_what_is_there(tmp_path, name):
    write(tmp_path / name, archive_of(name, {"folder/new.txt": b"new", "folder/old.txt": b"changed", "top.txt": b"top"}))
    write(tmp_path / "out" / "folder" / "old.txt", "old")
    write(tmp_path / "out" / "folder" / "kept.txt", "kept")
    assert utils.extract_archive(str(tmp_path / name), tmp_path / "out", remove_finished=True) == str(tmp_path / "out")
    contents = {path.name: path.read_text() for path in (tmp_path / "out").rglob("*.txt")}
    assert contents == {"new.txt": "new", "old.txt": "changed", "kept.txt": "kept", "top.txt": "top"}
    assert not (tmp_path / name).exists() and len(os.listdir(tmp_path / "out")) == 2


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tgz"])
@pytest.mark.parametrize("member", ["../evil.txt", "/tmp/evil-of-flambeau.txt", "folder/../../evil.txt"])
def test_nothing_is_written_outside_of_the_folder(tmp_path, name, member):
    write(tmp_path / "in" / name, archive_of(name, {"good.txt": b"", member: b"evil"}))
    if member.startswith("/") and not name.endswith(".zip"):  # the leading slash is left out
        utils.extract_archive(tmp_path / "in" / name, tmp_path / "in" / "out")
    else:
        with pytest.raises(RuntimeError, match="outside|traversal|absolute path"):
            utils.extract_archive(tmp_path / "in" / name, tmp_path / "in" / "out")
        assert os.listdir(tmp_path / "in" / "out") == []
    assert not (tmp_path / "evil.txt").exists() and not (tmp_path / "in" / "evil.txt").exists()
    assert not os.path.exists("/tmp/evil-of-flambeau.txt")


def test_links_out_of_the_folder_are_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    with pytest.raises(RuntimeError, match="damaged, or not what its name says"):
        utils.extract_archive(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz", "a.gz", "a.xz"])
def test_damaged_archives_are_named_and_leave_nothing(tmp_path, name):
    whole = archive_of(name, {f"file-{number}": os.urandom(2000) for number in range(5)})
    write(tmp_path / name, whole[: len(whole) // 3])
    with pytest.raises(RuntimeError, match=f"{name} is damaged"):
        utils.extract_archive(tmp_path / name, tmp_path / "out" if name.count(".") > 1 else tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


@pytest.mark.oracle
def test_single_files_arguments_and_folders_as_in_torchvision(theirs, tmp_path):
    import bz2
    import gzip
    import lzma

    for ending, compress in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        write(tmp_path / f"a.txt{ending}", compress(CONTENT))
        for library in (utils, theirs.utils):
            assert library.extract_archive(tmp_path / f"a.txt{ending}") == tmp_path / "a.txt"
            assert library._decompress(tmp_path / f"a.txt{ending}") == tmp_path / "a.txt"
            assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert utils.calculate_md5(tmp_path / "a.txt", chunk_size=7) == theirs.utils.calculate_md5(tmp_path / "a.txt") == MD5
    for library in (utils, theirs.utils):
        assert library.check_integrity(tmp_path / "a.txt", MD5) and not library.check_integrity(tmp_path / "a.txt", "0")
        assert library.check_integrity(tmp_path / "a.txt") and not library.check_integrity(tmp_path / "b.txt")
        assert library.list_dir(tmp_path.parent, prefix=True).count(str(tmp_path)) == 1
        assert sorted(library.list_files(tmp_path, (".gz", ".xz"))) == ["a.txt.gz", "a.txt.xz"]
        assert library.iterable_to_str(["a", 3]) == "'a', '3'"
    calls = [(3,), (3, "x"), ("c", "x", ("a", "b")), ("c", "x", ("a",), "own words"), ("a", "x", ("a",)), ("c",)]
    for arguments in calls:
        outcomes = []
        for library in (utils, theirs.utils):
            try:
                outcomes.append(library.verify_str_arg(*arguments))
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    for name in ("a", "a.txt", "a.foo.tar.gz", "a.b.gz", "a.tbz2"):
        outcomes = []
        for library in (utils, theirs.utils):
            try:
                outcomes.append(library._detect_file_type(name))
            except RuntimeError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    with pytest.raises(RuntimeError, match="Couldn't detect a compression"):
        utils._decompress(tmp_path / "a.tar")


@pytest.mark.oracle
def test_flows_of_16_bits_and_damaged_maps(tmp_path):
    levels = np.stack([np.full((3, 4), 2**15 + 64), np.full((3, 4), 2**15 - 32), np.arange(12).reshape(3, 4) % 2], -1).astype(np.uint16)
    for folder in ("image_2", "flow_occ"):
        pictures(tmp_path / "KittiFlow" / "training" / folder, "000000_10.png", "000000_11.png")
    write(tmp_path / "KittiFlow" / "training" / "flow_occ" / "000000_10.png", deep_png(levels, 2))
    _, _, flow, mask = datasets.KittiFlow(tmp_path)[0]
    assert flow.dtype == np.float32 and (flow[0] == 1).all() and (flow[1] == -0.5).all()
    np.testing.assert_array_equal(mask, levels[..., 2] == 1)
    for sequence in (0, 7):
        for name in (f"hd1k_input/image_2/{sequence:06d}_0010.png", f"hd1k_input/image_2/{sequence:06d}_0020.png"):
            picture(tmp_path / "hd1k" / name)
            write(tmp_path / "hd1k" / name.replace("hd1k_input/image_2", "hd1k_flow_gt/flow_occ"), deep_png(levels, 2))
    assert len(datasets.HD1K(tmp_path)) == 2 and datasets.HD1K(tmp_path)[1][2].shape == (2, 3, 4)
    assert len(2 * datasets.HD1K(tmp_path)) == 4
    from flambeau.vision.datasets import _optical_flow

    for content, read in (
        (b"PIEH\1\0\0\0\1\0\0\0", _optical_flow._read_flo),
        (b"other", _optical_flow._read_flo),
        (b"Pf\n6 5\n-1\nxx", utils._read_pfm),
    ):
        write(tmp_path / "damaged", content)
        with pytest.raises(ValueError, match="nvalid"):
            read(tmp_path / "damaged")


def test_middlebury_is_downloaded_scene_by_scene(files, tmp_path, monkeypatch):
    monkeypatch.setattr(
        utils, "Request", lambda url, headers: urllib.request.Request(f"{files.url}/{os.path.basename(url)}", headers=headers)
    )
    monkeypatch.setitem(datasets.Middlebury2014Stereo.splits, "train", ["Piano"])
    case = next(case for case in CASES if case.name == "Middlebury2014Stereo")
    case.build(tmp_path / "source")
    for name in ("Piano-perfect", "Piano-imperfect"):
        files.content[f"{name}.zip"] = packed(tmp_path / "source", "a.zip", ("Middlebury2014/train", name))
    dataset = datasets.Middlebury2014Stereo(tmp_path, calibration="both", download=True, use_ambient_views=True)
    assert len(dataset) == 2 and dataset[0][3].shape == (5, 6)
    for options, words in (({"calibration": None}, "has calibration settings"), ({"split": "test"}, "please set `calibration=None`")):
        with pytest.raises(ValueError, match=words):
            datasets.Middlebury2014Stereo(tmp_path, **options)


@pytest.mark.usefixtures("_any_checksum")
def test_boxes_of_boundaries_are_fetched_and_moved(files, tmp_path, monkeypatch):
    monkeypatch.setattr(
        utils, "Request", lambda url, headers: urllib.request.Request(f"{files.url}/{os.path.basename(url)}", headers=headers)
    )
    case: Case = next(case for case in CASES if case.name == "SBDataset")
    case.build(tmp_path / "source" / "benchmark_RELEASE" / "dataset")
    files.content["benchmark.tgz"] = packed(tmp_path, "benchmark.tgz", ("source",))
    files.content["train_noval.txt"] = b"2008_000000\n"
    assert len(datasets.SBDataset(tmp_path / "a", "train_noval", download=True)) == 1
    assert json.dumps(sorted(path for path, _ in files.requests)) == '["benchmark.tgz", "train_noval.txt"]'


# -- targets for transforms of the second version --------------------------------------------------------------------------
WRAPPED = [
    ("VOCDetection", {}, None),
    ("VOCDetection", {}, "all"),
    ("VOCDetection", {}, ["labels"]),
    ("VOCSegmentation", {}, None),
    ("SBDataset", {"mode": "segmentation"}, None),
    ("CelebA", {"target_type": ["identity", "bbox"]}, None),
    ("CelebA", {"target_type": "bbox", "split": "all"}, None),
    ("Kitti", {}, None),
    ("Kitti", {}, {"type", "boxes", "alpha"}),
    ("Kitti", {"train": False}, None),
    ("OxfordIIITPet", {"target_types": ["category", "segmentation"]}, None),
    ("Cityscapes", {"target_type": ["instance", "semantic"]}, None),
    ("WIDERFace", {}, None),
    ("WIDERFace", {"split": "val"}, ["bbox", "pose"]),
    ("WIDERFace", {"split": "test"}, None),
    ("MNIST", {}, None),
    ("EuroSAT", {}, None),
    ("Caltech101", {}, None),
]
REFUSED = [
    ("Caltech101", {"target_type": "annotation"}, None),
    ("SBDataset", {}, None),
    ("CelebA", {}, None),
    ("Cityscapes", {"target_type": "color"}, None),
    ("MNIST", {}, "all"),
    ("Kitti", {}, ["color"]),
    ("Kitti", {}, 3),
    ("Kitti", {}, "boxes"),
    ("Places365", {"small": True}, None),
]


def described(value: Any) -> Any:
    """``plain``, with the kind of each tensor and what it says of itself."""
    if isinstance(value, dict):
        return {key: described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    more = {name: str(getattr(value, name)) for name in ("format", "canvas_size") if hasattr(value, "canvas_size")}
    return type(value).__name__, more, plain(value)


def small(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@pytest.mark.oracle
@not_closed_by_torchvision
@pytest.mark.usefixtures("_any_checksum")
@pytest.mark.parametrize(("name", "options", "keys"), WRAPPED)
def test_wrapped_targets_are_torchvisions(theirs, built, name, options, keys):
    root, results = str(built(small(name))), []
    for library in (datasets, theirs):
        dataset = library.wrap_dataset_for_transforms_v2(getattr(library, name)(root, **options), keys)
        assert isinstance(dataset, getattr(library, name)) and type(dataset).__name__ == f"Wrapped{name}"
        results.append([described(dataset[index]) for index in range(len(dataset))])
    assert results[0] == results[1] != []


@pytest.mark.oracle
@not_closed_by_torchvision
@pytest.mark.usefixtures("_any_checksum")
@pytest.mark.parametrize(("name", "options", "keys"), REFUSED)
def test_what_cannot_be_wrapped_is_refused_as_in_torchvision(theirs, built, name, options, keys):
    root, kinds = str(built(small(name))), []
    for library in (datasets, theirs):
        with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
            library.wrap_dataset_for_transforms_v2(getattr(library, name)(root, **options), keys)
        kinds.append(type(error.value))
    assert kinds[0] is kinds[1]


@pytest.mark.usefixtures("_any_checksum")
def test_wrapped_data_sets_transform_and_travel(built, tmp_path, monkeypatch):
    from flambeau.vision import tv_tensors
    from flambeau.vision.transforms import v2

    root = built(small("VOCDetection"))
    transforms = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(1.0)])
    dataset = tv_tensors.wrap_dataset_for_transforms_v2(datasets.VOCDetection(root, transforms=transforms), "all")
    for current in (dataset, pickle.loads(pickle.dumps(dataset))):
        image, target = current[0]
        assert isinstance(image, tv_tensors.Image) and isinstance(target["boxes"], tv_tensors.BoundingBoxes)
        assert current.images == dataset.images and len(current) == 2
    with pytest.raises(TypeError, match="meant for subclasses"):
        datasets.wrap_dataset_for_transforms_v2([1, 2])
    with pytest.raises(AttributeError):
        datasets.nothing  # noqa: B018


def test_wrapped_coco(tmp_path, monkeypatch):
    coco(tmp_path)
    content = json.loads((tmp_path / "annotations.json").read_text())
    for record in content["annotations"]:
        record.update(category_id=5, segmentation=[[0, 0, 3, 0, 3, 3]])
    write(tmp_path / "boxes.json", json.dumps(content))
    dataset = datasets.CocoDetection(tmp_path, tmp_path / "boxes.json")
    target = datasets.wrap_dataset_for_transforms_v2(dataset)[1][1]
    assert target["boxes"].tolist() == [[1, 2, 4, 6]] * 2 and target["labels"].tolist() == [5, 5] and target["image_id"] == 3
    masks = datasets.wrap_dataset_for_transforms_v2(dataset, ["masks", "bbox"])[1][1]
    assert masks["masks"].shape == (2, 5, 6) and masks["masks"].dtype is flambeau.uint8 and masks["bbox"] == [[1, 2, 3, 4]] * 2


# What the COCO API makes of these outlines on a canvas of 5 rows and 6 columns, row by row.
OUTLINES = [
    ([[0, 0, 3, 0, 3, 3]], "011000 001000 000000 000000 000000"),
    ([[1, 1, 5, 1, 5, 4, 1, 4]], "000000 011110 011110 011110 000000"),
    ([[0.4, 0.6, 5.7, 2.2, 2.1, 4.9]], "000000 011100 011110 001100 001000"),
    ([[0, 0, 2, 0, 2, 2, 0, 2], [3.5, 3.5, 9, 3.5, 9, 9]], "110000 110000 000000 000000 000001"),
    ([[2, 2, 2, 2, 4, 4]], "000000 000000 000000 000000 000000"),
    ({"counts": [2, 5, 3, 9, 11]}, "011100 011100 101100 101100 101000"),
    ({"counts": "25348"}, "011100 011100 101100 101100 101000"),
    ({"counts": "111060J060J05"}, "000000 101010 000000 101010 000000"),
]


@pytest.mark.parametrize(("outline", "rows"), OUTLINES)
def test_masks_of_outlines(outline, rows):
    from flambeau.vision.datasets.coco_masks import mask_of

    found = mask_of(outline, 5, 6)
    assert found.dtype == np.uint8 and ["".join(map(str, row)) for row in found.tolist()] == rows.split()


def test_outlines_that_are_none():
    from flambeau.vision.datasets.coco_masks import mask_of

    with pytest.raises(ValueError, match="expected to be a dict or a list"):
        mask_of("outline", 2, 2)
    with pytest.raises(ValueError, match="runs of 2 x 2 pixels"):
        mask_of({"counts": [1, 2]}, 2, 2)
