"""Every kind of picture decodes to its native pixels, or says in few words why not."""

from __future__ import annotations

import io
import pickle
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from heldout.image import (
    ImageError,
    ImageRef,
    InlineBytes,
    TarMember,
    byte_digest,
    decode,
    digest_bytes,
    native_size,
    pixel_digest,
    to_rgb,
)
from heldout.image.decode import FORMATS


def encoded(image: Image.Image, format: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def noise(mode="RGB", size=(20, 12), seed=0) -> Image.Image:
    bands = {"L": (), "RGB": (3,), "RGBA": (4,), "CMYK": (4,), "LA": (2,)}[mode]
    shape = (size[1], size[0], *bands)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.frombytes(mode, size, pixels.tobytes())


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("BMP", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("WEBP", {"lossless": True}),
        ("PPM", {}),
        ("JPEG2000", {}),
        ("TGA", {}),
        ("PCX", {}),
        ("DIB", {}),
        ("ICO", {"sizes": [(20, 12)]}),
    ],
)
def test_lossless_formats_of_one_picture_have_one_pixel_digest(format, options):
    image = noise()
    if format == "GIF":  # 240 pixels fit its palette exactly
        image = image.quantize(256).convert("RGB")
    data = encoded(image, format, **options)
    assert decode(data).mode == "RGB"
    assert pixel_digest(decode(data)) == pixel_digest(image)
    assert native_size(data) == (20, 12)


@pytest.mark.parametrize("format", ["JPEG", "AVIF", "WEBP"])
def test_lossy_formats_decode_to_nearly_the_same(format):
    image = Image.linear_gradient("L").resize((64, 48)).convert("RGB")
    found = np.asarray(decode(encoded(image, format, quality=90)), dtype=int)
    assert np.abs(found - np.asarray(image, dtype=int)).max() < 16


def test_every_format_we_name_is_one_that_pillow_opens():
    Image.init()
    assert set(FORMATS) <= set(Image.OPEN)
    assert "EPS" not in FORMATS  # would start Ghostscript on untrusted input


def test_sixteen_bit_greys_keep_their_depth():
    deep = np.random.default_rng(0).integers(0, 65536, (12, 20), dtype=np.uint16)
    for format in ("PNG", "TIFF"):
        image = decode(encoded(Image.fromarray(deep), format))
        assert np.array_equal(np.asarray(image), deep)
        shown = np.asarray(to_rgb(image))
        assert (shown.min(), shown.max(), shown.shape) == (0, 255, (12, 20, 3))
    other = deep.copy()
    other[0, 0] ^= 1  # one step of 65,536 is another picture
    first, second = (digest_bytes(encoded(Image.fromarray(d), "PNG")) for d in (deep, other))
    assert first.pixels != second.pixels


def test_cmyk_stays_cmyk_and_shows_as_rgb():
    image = decode(encoded(noise("CMYK"), "TIFF"))
    assert image.mode == "CMYK"
    assert image.tobytes() == noise("CMYK").tobytes()
    assert to_rgb(image).mode == "RGB"


def test_floating_point_pictures_with_holes_can_be_shown():
    grey = np.linspace(-3, 9, 240, dtype=np.float32).reshape(12, 20)
    grey[0, 0], grey[0, 1] = np.nan, np.inf
    shown = np.asarray(to_rgb(decode(encoded(Image.fromarray(grey), "TIFF"))))
    assert shown[-1, -1, 0] == 255
    assert shown[0, 2, 0] < 5


def test_palettes_are_expanded_with_and_without_transparency():
    flat = noise().quantize(16)
    assert decode(encoded(flat, "PNG")).tobytes() == flat.convert("RGB").tobytes()
    see_through = encoded(flat, "PNG", transparency=0)
    assert decode(see_through).mode == "RGBA"
    assert to_rgb(decode(see_through)).mode == "RGB"
    bilevel = noise("L").convert("1")
    assert decode(encoded(bilevel, "PNG")).tobytes() == bilevel.convert("L").tobytes()


def test_an_alpha_channel_that_hides_nothing_is_dropped_and_one_that_hides_stays():
    image = noise()
    opaque = image.copy()
    opaque.putalpha(255)
    assert pixel_digest(decode(encoded(opaque, "PNG"))) == pixel_digest(image)
    hidden = noise("RGBA")
    assert decode(encoded(hidden, "PNG")).mode == "RGBA"
    clear = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    assert to_rgb(clear).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation_is_the_picture(format):
    frames = [noise(seed=k).quantize(256).convert("RGB") for k in range(3)]
    options = {"lossless": True} if format == "WEBP" else {}
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert decode(data).convert("RGB").tobytes() == frames[0].tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_rotation_in_the_exif_block_is_applied(orientation):
    upright = noise()
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(turns[orientation]) if orientation in turns else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored, "PNG", exif=exif)
    assert decode(data).tobytes() == upright.tobytes()
    assert native_size(data) == upright.size


def test_a_broken_exif_block_leaves_the_pixels_readable():
    data = encoded(noise(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff garbage")
    assert decode(data).size == native_size(data) == (20, 12)


def test_a_picture_with_a_wrong_ending_is_still_that_picture(tmp_path):
    data = encoded(noise(), "WEBP", lossless=True)
    path = tmp_path / "liar.jpg"
    path.write_bytes(data)
    with Image.open(path) as expected:
        assert decode(path.read_bytes()).tobytes() == expected.convert("RGB").tobytes()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty image"),
        (b"hello, this is text", "not an image"),
        (b"<html><body>404</body></html>", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        (b"\xff\xd8\xff", "not an image"),
        (b"\x89PNG\r\n\x1a\n", "not an image"),
    ],
)
def test_what_is_no_picture_has_a_short_reason(data, reason):
    for function in (decode, native_size, digest_bytes):
        with pytest.raises(ImageError) as error:
            function(data)
        assert error.value.reason == reason


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP", "JPEG2000"])
def test_pictures_cut_anywhere_or_damaged_raise_nothing_but_image_errors(format):
    whole = encoded(noise(size=(40, 30)), format)
    chance = random.Random(11)
    reasons = set()
    for position in chance.sample(range(len(whole)), 40):
        broken = bytearray(whole)
        for _ in range(20):
            broken[chance.randrange(len(whole))] = chance.randrange(256)
        for data in (whole[:position], bytes(broken)):
            try:
                decode(data)
            except ImageError as error:
                reasons.add(error.reason)
    known = {
        "truncated image",
        "not an image",
        "unreadable image",
        "empty image",
        "decompression bomb",
    }
    assert reasons
    assert reasons <= known


def test_a_cut_jpeg_is_called_truncated():
    data = encoded(noise(size=(200, 200)), "JPEG")
    with pytest.raises(ImageError) as error:
        decode(data[: len(data) // 2])
    assert error.value.reason == "truncated image"


def bomb(width: int, height: int) -> bytes:
    """A small PNG that declares a huge picture."""

    def chunk(name: bytes, body: bytes) -> bytes:
        whole = name + body
        return struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


def test_decompression_bombs_are_refused_by_their_header():
    for function in (decode, native_size):
        with pytest.raises(ImageError) as error:
            function(bomb(100_000, 100_000))
        assert error.value.reason == "decompression bomb"
        with pytest.raises(ImageError) as error:
            function(bomb(300, 300), max_pixels=1000)
        assert error.value.reason == "decompression bomb"


def test_errors_survive_the_trip_between_processes():
    error = pickle.loads(pickle.dumps(ImageError("truncated image", "at byte 7")))
    assert (error.reason, error.detail) == ("truncated image", "at byte 7")


def test_blank_pictures_are_known_as_such():
    assert digest_bytes(encoded(Image.new("RGB", (9, 9), (7, 8, 9)), "PNG")).blank
    assert digest_bytes(encoded(Image.new("CMYK", (9, 9)), "TIFF")).blank
    assert digest_bytes(encoded(Image.fromarray(np.full((9, 9), 300, np.uint16)), "PNG")).blank
    assert not digest_bytes(encoded(noise("L"), "PNG")).blank
    assert not digest_bytes(encoded(noise("CMYK"), "TIFF")).blank


def test_a_reference_reads_the_published_bytes():
    data = encoded(noise(), "PNG")
    ref = ImageRef("a.png", InlineBytes(data, "memory"))
    assert byte_digest(ref.read()) == byte_digest(data)
    assert ref.open().tobytes() == noise().tobytes()


def test_a_tar_member_that_ends_early_says_so(tmp_path):
    path = tmp_path / "t.tar"
    path.write_bytes(b"x" * 100)
    with pytest.raises(ImageError, match="truncated image"):
        TarMember(str(path), "a.png", 50, 100).read()


def dicom(pixels: np.ndarray, **elements) -> bytes:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    dataset = pydicom.Dataset()
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.file_meta = meta
    dataset.SOPClassUID, dataset.SOPInstanceUID = SecondaryCaptureImageStorage, generate_uid()
    dataset.Rows, dataset.Columns = pixels.shape[-2:]
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 16
    dataset.HighBit, dataset.PixelRepresentation = 15, 0
    dataset.PixelData = pixels.astype("<u2").tobytes()
    for name, value in elements.items():
        setattr(dataset, name, value)
    buffer = io.BytesIO()
    pydicom.dcmwrite(buffer, dataset, enforce_file_format=True)
    return buffer.getvalue()


def test_dicom_is_shown_through_its_window():
    ramp = np.arange(240, dtype=np.uint16).reshape(12, 20) * 10
    plain = np.asarray(decode(dicom(ramp)))
    assert (plain[0, 0], plain[-1, -1], plain.shape) == (0, 255, (12, 20))
    assert native_size(dicom(ramp)) == (20, 12)
    windowed = np.asarray(decode(dicom(ramp, WindowCenter=1000, WindowWidth=200)))
    assert (windowed[ramp < 850] == 0).all()
    assert (windowed[ramp > 1150] == 255).all()
    inverted = np.asarray(decode(dicom(ramp, PhotometricInterpretation="MONOCHROME1")))
    assert (inverted[0, 0], inverted[-1, -1]) == (255, 0)


def test_dicom_frames_and_damage():
    frames = np.stack([np.eye(8, dtype=np.uint16) * 100, np.ones((8, 8), np.uint16)])
    first = np.asarray(decode(dicom(frames, NumberOfFrames=2)))
    assert np.array_equal(first, np.eye(8, dtype=np.uint8) * 255)
    whole = dicom(frames[0])
    for position in range(140, len(whole) - 1, 37):
        with pytest.raises(ImageError) as error:
            decode(whole[:position])
        assert error.value.reason in ("unreadable DICOM", "not an image", "truncated image")
    with pytest.raises(ImageError, match="decompression bomb"):
        decode(whole, max_pixels=10)
