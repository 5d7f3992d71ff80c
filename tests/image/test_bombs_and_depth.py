"""DICOM files that unpack to more than they should, and pictures with more bits than are shown."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from heldout.image import FileOnDisk, ImageError, decode, digest_bytes, native_size
from heldout.image.digest import is_blank
from heldout.image.problem import MAX_SCANS

pydicom = pytest.importorskip("pydicom")
from pydicom.dataset import Dataset, FileMetaDataset  # noqa: E402
from pydicom.encaps import encapsulate  # noqa: E402
from pydicom.uid import (  # noqa: E402
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
    RLELossless,
    generate_uid,
)

MEBIBYTE = 1 << 20


@pytest.fixture
def traced() -> Iterator[None]:
    """Allocations are counted while the test runs."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def dataset(syntax, rows=16, columns=16, **elements) -> Dataset:
    found = Dataset()
    found.file_meta = FileMetaDataset()
    found.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    found.file_meta.MediaStorageSOPInstanceUID = found.SOPInstanceUID = generate_uid()
    found.file_meta.TransferSyntaxUID = syntax
    found.SOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    found.Rows, found.Columns, found.SamplesPerPixel = rows, columns, 1
    found.PhotometricInterpretation = "MONOCHROME2"
    found.BitsAllocated, found.BitsStored, found.HighBit = 16, 12, 11
    found.PixelRepresentation = 0
    for name, value in elements.items():
        setattr(found, name, value)
    return found


def written(found: Dataset) -> bytes:
    buffer = io.BytesIO()
    pydicom.dcmwrite(buffer, found, enforce_file_format=True)
    return buffer.getvalue()


RAMP = np.arange(256, dtype="<u2").reshape(16, 16) * 15


@pytest.mark.parametrize(
    "syntax",
    [
        ExplicitVRLittleEndian,
        ImplicitVRLittleEndian,
        ExplicitVRBigEndian,
        DeflatedExplicitVRLittleEndian,
    ],
)
def test_every_plain_encoding_of_a_dicom_shows_the_same_picture(syntax):
    order = ">u2" if syntax == ExplicitVRBigEndian else "<u2"
    data = written(
        dataset(
            syntax,
            PixelData=RAMP.astype(order).tobytes(),
            WindowWidth=3825,
            WindowCenter=1913,
            RescaleSlope=1,
            RescaleIntercept=0,
        )
    )
    assert np.array_equal(np.asarray(decode(data)).ravel(), np.arange(256))
    assert native_size(data) == (16, 16)


def test_a_deflated_dicom_is_inflated_up_to_a_limit(traced):
    small = written(dataset(DeflatedExplicitVRLittleEndian, PixelData=bytes(512)))
    start = 144 + struct.unpack("<I", small[140:144])[0]
    body = zlib.decompress(small[start:], -15)
    squeezer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = squeezer.compress(
        body[: -512 - 12] + struct.pack("<HH2sHI", 0x7FE0, 0x10, b"OW", 0, 140 * MEBIBYTE)
    )
    for _ in range(14):
        packed += squeezer.compress(bytes(10 * MEBIBYTE))
    data = small[:start] + packed + squeezer.flush()
    assert len(data) < MEBIBYTE
    for function in (decode, native_size):
        with pytest.raises(ImageError, match="decompression bomb"):
            function(data)
    assert tracemalloc.get_traced_memory()[1] < 300 * MEBIBYTE


def test_only_the_first_of_many_frames_is_decoded(traced):
    side, count = 1024, 64
    segment = b"\x81\x00" * (side * side // 128)
    frame = struct.pack("<16I", 2, 64, 64 + len(segment), *[0] * 13) + segment + segment
    first = dataset(RLELossless, side, side, NumberOfFrames=count)
    first.PixelData = encapsulate([frame] * count)
    first["PixelData"].is_undefined_length = True
    assert decode(written(first)).size == (side, side)
    assert tracemalloc.get_traced_memory()[1] < 100 * MEBIBYTE  # all of them are 128


@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        ({"NumberOfFrames": -1}, "unreadable DICOM"),
        ({"NumberOfFrames": 2_000_000_000}, "unreadable DICOM"),
        ({"SamplesPerPixel": 60_000, "Rows": 10_000, "Columns": 10_000}, "decompression bomb"),
        ({"Rows": 0}, "unreadable DICOM"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(elements, reason):
    data = written(dataset(ExplicitVRLittleEndian, PixelData=bytes(512), **elements))
    for function in (decode, native_size):
        with pytest.raises(ImageError) as error:
            function(data)
        assert error.value.reason == reason


def test_a_dicom_without_its_encoding_is_refused():
    whole = written(dataset(ExplicitVRLittleEndian, PixelData=bytes(512)))
    end = 144 + struct.unpack("<I", whole[140:144])[0]
    with pytest.raises(ImageError, match="Transfer Syntax"):
        decode(whole[:132] + whole[end:])


def test_deep_colours_of_a_dicom_keep_their_upper_bits():
    colours = np.random.default_rng(0).integers(0, 65536, (16, 16, 3)).astype("<u2")
    data = written(
        dataset(
            ExplicitVRLittleEndian,
            SamplesPerPixel=3,
            PhotometricInterpretation="RGB",
            PlanarConfiguration=0,
            BitsStored=16,
            HighBit=15,
            PixelData=colours.tobytes(),
        )
    )
    assert np.array_equal(np.asarray(decode(data)), colours >> 8)


def deep_png(samples: np.ndarray, kind: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        whole = name + body
        return struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))

    height, width = samples.shape[:2]
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in samples)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0))
    text = chunk(b"tEXt", b"heldout reduced\0the same")
    pixels = chunk(b"IDAT", zlib.compress(lines))
    return b"\x89PNG\r\n\x1a\n" + header + text + pixels + chunk(b"IEND", b"")


def deep_ppm(samples: np.ndarray, _: int) -> bytes:
    height, width = samples.shape[:2]
    return f"P6 {width} {height} 65535\n".encode() + samples.astype(">u2").tobytes()


def deep_tiff(samples: np.ndarray, _: int) -> bytes:
    """Sixteen-bit colours in one strip, the eleven fields written by hand."""
    height, width = samples.shape[:2]
    pixels = samples.astype("<u2").tobytes()
    after = 8 + 2 + 10 * 12 + 4
    fields = [
        (256, 3, 1, width),
        (257, 3, 1, height),
        (258, 3, 3, after),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (273, 4, 1, after + 6),
        (277, 3, 1, 3),
        (278, 3, 1, height),
        (279, 4, 1, len(pixels)),
        (284, 3, 1, 1),
    ]
    table = b"".join(struct.pack("<HHII", *field) for field in fields)
    head = b"II*\0" + struct.pack("<IH", 8, len(fields)) + table + struct.pack("<I", 0)
    return head + struct.pack("<3H", 16, 16, 16) + pixels


@pytest.mark.parametrize(
    ("write", "kind", "channels"),
    [(deep_png, 2, 3), (deep_png, 4, 2), (deep_png, 6, 4), (deep_ppm, 2, 3), (deep_tiff, 2, 3)],
    ids=["PNG colour", "PNG grey with alpha", "PNG colour with alpha", "PPM", "TIFF"],
)
def test_pictures_that_differ_in_bits_pillow_drops_are_two(write, kind, channels):
    chance = np.random.default_rng(0)
    # 257 times a level is that level in sixteen bits, whether bits are cut off or rounded.
    upper = chance.integers(1, 255, (8, 8, channels)) * 257
    one, other = (write(upper + chance.integers(0, 2, upper.shape), kind) for _ in range(2))
    assert decode(one).tobytes() == decode(other).tobytes()
    assert decode(one).size == (8, 8)
    assert digest_bytes(one).pixels != digest_bytes(other).pixels
    assert digest_bytes(one).pixels == digest_bytes(bytes(one)).pixels


def test_text_in_a_file_does_not_pass_for_lost_bits():
    from PIL.PngImagePlugin import PngInfo

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    note = PngInfo()
    note.add_text("heldout reduced", "another picture")
    plain, noted = io.BytesIO(), io.BytesIO()
    image.save(plain, "PNG")
    image.save(noted, "PNG", pnginfo=note)
    assert digest_bytes(plain.getvalue()).pixels == digest_bytes(noted.getvalue()).pixels


def test_a_label_map_is_not_blank_and_a_speck_on_paper_is():
    labels = np.zeros((64, 64), np.uint8)
    labels[10:40, 10:40], labels[20:25, 20:25], labels[50:60, 5:30] = 1, 2, 3
    assert not is_blank(Image.fromarray(labels))
    assert not is_blank(Image.fromarray(labels.astype(np.uint16)))
    assert not is_blank(Image.fromarray(np.stack([labels] * 3, axis=2)))
    paper = np.full((64, 64, 3), 250, np.uint8)
    paper[3, 4:20] = 251
    assert is_blank(Image.fromarray(paper))


def test_a_pipe_is_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ImageError, match="not a regular file"):
        FileOnDisk(str(tmp_path / "a.png")).read()


def progressive(scans: int) -> bytes:
    """A progressive JPEG of ten scans, the last of which comes more often."""
    buffer = io.BytesIO()
    Image.effect_noise((48, 48), 60).convert("RGB").save(buffer, "JPEG", progressive=True)
    data = buffer.getvalue()
    return data[:-2] + data[data.rfind(b"\xff\xda") : -2] * scans + data[-2:]


def test_a_jpeg_of_more_scans_than_encoders_write_is_refused() -> None:
    assert decode(progressive(30)).size == (48, 48)
    with pytest.raises(ImageError, match="too many scans"):
        decode(progressive(MAX_SCANS))
    frame = dataset(JPEGBaseline8Bit, 48, 48, BitsAllocated=8, BitsStored=8, HighBit=7)
    frame.PhotometricInterpretation, frame.SamplesPerPixel = "YBR_FULL_422", 3
    frame.PlanarConfiguration = 0
    frame.PixelData = encapsulate([progressive(MAX_SCANS)])
    with pytest.raises(ImageError, match="too many scans"):
        decode(written(frame))


def test_what_only_looks_like_scans_is_read() -> None:
    """Thumbnails and comments hold marks of scans, and pictures may follow each other in one file."""
    data = progressive(0)
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 2 * 500) + b"\xff\xda" * 500
    assert decode(data[:2] + comment + data[2:]).size == (48, 48)
    assert decode(data * 20).size == (48, 48)
