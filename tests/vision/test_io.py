"""Images from files and into files: what Pillow reads from the same bytes; colors of 16 bits against values that were written."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from oracle_vision import torchvision
from PIL import Image
from small_datasets import deep_png

import flambeau
from flambeau.vision import io as vision_io
from flambeau.vision.io import ImageReadMode

LEVELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
SMOOTH = np.add.outer(np.arange(16), np.arange(24))[..., None].repeat(3, 2).astype(np.uint8) * np.array([1, 3, 5], np.uint8)


def content(picture: Any, **options: Any) -> bytes:
    memory = io.BytesIO()
    picture.save(memory, **options)
    return memory.getvalue()


def tensor(data: bytes) -> flambeau.Tensor:
    return flambeau.frombuffer(bytearray(data), dtype=flambeau.uint8)


def channels_first(picture: Any) -> Any:
    values = np.array(picture)
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


COLOR = Image.fromarray(LEVELS)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("wanted", list(ImageReadMode))
def test_png_in_every_mode(mode, wanted):
    picture = COLOR.convert(mode)
    image = vision_io.decode_png(tensor(content(picture, format="PNG")), wanted)
    expected = {"UNCHANGED": mode, "GRAY": "L", "GRAY_ALPHA": "LA", "RGB_ALPHA": "RGBA"}.get(wanted.name, wanted.name)
    assert image.dtype is flambeau.uint8
    np.testing.assert_array_equal(image.numpy(), channels_first(picture.convert(expected)))
    assert flambeau.equal(image, vision_io.decode_image(tensor(content(picture, format="PNG")), wanted.name.lower()))


def test_png_of_bits_palettes_and_16_bits():
    black_and_white = COLOR.convert("1")
    image = vision_io.decode_png(tensor(content(black_and_white, format="PNG")))
    np.testing.assert_array_equal(image.numpy(), channels_first(black_and_white.convert("L")))
    palette = COLOR.convert("P")
    np.testing.assert_array_equal(vision_io.decode_png(tensor(content(palette, format="PNG"))).numpy(), channels_first(palette))
    deep = Image.fromarray(LEVELS[..., 0].astype(np.uint16) * 257)
    image = vision_io.decode_png(tensor(content(deep, format="PNG")))
    assert image.dtype is flambeau.uint16
    np.testing.assert_array_equal(image.numpy(), channels_first(deep))


@pytest.mark.parametrize(("color", "count"), [(2, 3), (4, 2), (6, 4)])
def test_png_with_colors_of_16_bits(color, count):
    values = np.random.default_rng(1).integers(0, 1 << 16, (11, 4, count)).astype(np.uint16)
    values[5:8] //= 300  # neighbours that are alike, for all of Paeth's choices
    file = deep_png(values, color)
    if count != 2:
        assert Image.open(io.BytesIO(file)).size == (4, 11)  # Pillow takes it for a PNG file, too
    image = vision_io.decode_image(tensor(file))
    assert image.dtype is flambeau.uint16
    np.testing.assert_array_equal(image.numpy(), values.transpose(2, 0, 1))
    for damaged in (file[:-30], file[:40] + b"x" + file[41:]):
        with pytest.raises(RuntimeError, match="damaged"):
            vision_io.decode_png(tensor(damaged))
    with pytest.raises(NotImplementedError, match="interlaced"):
        vision_io.decode_png(tensor(deep_png(values, color, interlaced=1)))
    with pytest.raises(NotImplementedError, match="not converted"):
        vision_io.decode_png(tensor(file), "GRAY")


def test_jpeg_webp_and_gif():
    jpeg = content(Image.fromarray(SMOOTH), format="JPEG")
    np.testing.assert_array_equal(vision_io.decode_jpeg(tensor(jpeg)).numpy(), channels_first(Image.open(io.BytesIO(jpeg))))
    gray = vision_io.decode_jpeg(tensor(jpeg), ImageReadMode.GRAY).numpy()
    expected = channels_first(Image.open(io.BytesIO(jpeg)).convert("L"))
    assert gray.shape == expected.shape and np.abs(gray.astype(int) - expected).max() <= 1
    both = vision_io.decode_jpeg([tensor(jpeg), tensor(jpeg)])
    assert len(both) == 2 and flambeau.equal(both[0], vision_io.decode_image(tensor(jpeg)))
    webp = content(COLOR.convert("RGBA"), format="WEBP", lossless=True)
    np.testing.assert_array_equal(vision_io.decode_image(tensor(webp), "RGB").numpy(), channels_first(COLOR))
    frames = [COLOR.quantize(8), COLOR.rotate(180).quantize(8)]
    gif = content(frames[0], format="GIF")
    np.testing.assert_array_equal(vision_io.decode_gif(tensor(gif)).numpy(), channels_first(frames[0].convert("RGB")))
    moving = vision_io.decode_image(tensor(content(frames[0], format="GIF", save_all=True, append_images=frames[1:])))
    np.testing.assert_array_equal(moving.numpy(), np.stack([channels_first(frame.convert("RGB")) for frame in frames]))


def test_images_are_turned_as_their_exif_data_say():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    for format in ("PNG", "JPEG"):
        data = tensor(content(Image.fromarray(SMOOTH), format=format, exif=exif))
        turned = vision_io.decode_image(data, apply_exif_orientation=True)
        assert flambeau.equal(turned, vision_io.decode_image(data).flip(1).transpose(1, 2))


def test_written_files_come_back(tmp_path):
    image = flambeau.from_numpy(LEVELS.transpose(2, 0, 1).copy())
    vision_io.write_png(image, tmp_path / "a.png", compression_level=9)
    assert flambeau.equal(vision_io.read_image(str(tmp_path / "a.png")), image)
    assert flambeau.equal(vision_io.decode_image(tmp_path / "a.png", "GRAY_ALPHA")[1], flambeau.full((6, 5), 255, dtype=flambeau.uint8))
    vision_io.write_jpeg(image[:1], tmp_path / "a.jpg", quality=100)
    assert (vision_io.read_image(tmp_path / "a.jpg").float() - image[:1].float()).abs().max() <= 8
    data = vision_io.encode_jpeg([image, image], quality=5)
    assert flambeau.equal(data[0], vision_io.encode_jpeg(image, 5)) and len(data[0]) < len(vision_io.encode_jpeg(image, 100))
    vision_io.write_file(tmp_path / "b", data[0])
    assert flambeau.equal(vision_io.read_file(tmp_path / "b"), data[0])


def test_what_is_no_image_is_refused(tmp_path):
    image, png = flambeau.zeros(3, 2, 2, dtype=flambeau.uint8), tensor(content(COLOR, format="PNG"))
    with pytest.raises(RuntimeError, match="No such file"):
        vision_io.read_image(tmp_path / "missing.png")
    for wrong in (image, image.float()[0, 0], image[:0, 0, 0]):
        with pytest.raises(RuntimeError):
            vision_io.decode_image(wrong)
    with pytest.raises(RuntimeError, match="Unsupported image file"):
        vision_io.decode_image(tensor(b"no image at all"))
    for decode in (vision_io.decode_jpeg, vision_io.decode_gif, vision_io.decode_webp):
        with pytest.raises(RuntimeError, match="not a readable image"):
            decode(png)
    for damaged in (png[:60], png[:20]):
        with pytest.raises(RuntimeError):
            vision_io.decode_png(damaged)
    for wrong in (image.float(), image[0], image[:2]):
        for encode in (vision_io.encode_png, vision_io.encode_jpeg):
            with pytest.raises(RuntimeError):
                encode(wrong)
    with pytest.raises(RuntimeError, match="between 0 and 9"):
        vision_io.encode_png(image, 10)
    for wrong in ((image, 0), ([],)):
        with pytest.raises(ValueError):
            vision_io.encode_jpeg(*wrong)
    with pytest.raises(NotImplementedError):
        vision_io.read_video("a.mp4")
    with pytest.raises(NotImplementedError):
        vision_io.decode_heic(png)


@pytest.mark.oracle
def test_the_names_and_signatures_are_torchvisions():
    import inspect

    theirs = torchvision().io
    assert vision_io.__all__ == theirs.__all__
    assert [(mode.name, mode.value) for mode in ImageReadMode] == [(mode.name, mode.value) for mode in theirs.ImageReadMode]
    for name in set(theirs.__all__) - {"ImageReadMode"}:
        ours, expected = (inspect.signature(getattr(library, name)).parameters for library in (vision_io, theirs))
        assert [(key, str(value.default)) for key, value in ours.items()] == [(k, str(v.default)) for k, v in expected.items()], name
