"""Tars: samples, formats, cuts at any byte, and members that point elsewhere."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pytest

from heldout.corpus import CorpusItem, open_corpus
from heldout.corpus.streams import tar_entries
from heldout.store import Dropped


def write_tar(path: Path, members, mode="w", format=tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, mode, format=format) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def sample(key: str, image: bytes):
    caption = {"caption": f"json {key}", "url": f"http://x/{key}"}
    return [
        (f"{key}.png", image),
        (f"{key}.txt", f"caption {key}".encode()),
        (f"{key}.json", json.dumps(caption).encode()),
    ]


def read_all(corpus):
    return [found for shard in corpus.shards() for found in corpus.read(shard)]


def facts(item: CorpusItem):
    return item.id, item.image.read() if item.image else None, item.text, dict(item.metadata)


@pytest.mark.parametrize(("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz")])
def test_samples_have_image_text_and_metadata(tmp_path, picture, ending, mode):
    path = tmp_path / f"00000.{ending}"
    write_tar(path, sample("a/000", picture(0)) + sample("a/001", picture(1)), mode)
    found = read_all(open_corpus(path))
    assert [facts(item) for item in found] == [
        (
            f"00000.{ending}/a/{key}",
            picture(seed),
            f"caption a/{key}",
            {"caption": f"json a/{key}", "url": f"http://x/a/{key}"},
        )
        for seed, key in enumerate(["000", "001"])
    ]


def test_a_sample_may_be_text_alone_have_several_images_or_neither(tmp_path, picture):
    members = [
        ("pair.left.png", picture(0)),
        ("pair.right.png", picture(1)),
        ("pair.json", b'{"question": "Same?", "answer": "no"}'),
        ("words.txt", b"only words"),
        ("label.cls", b"3"),
        ("noending", picture(2)),
        ("wrong.json", b"[1"),
        ("wrong.png", picture(3)),
    ]
    found = read_all(open_corpus(write_tar(tmp_path / "s.tar", members)))
    ids = [item.id for item in found if isinstance(item, CorpusItem)]
    assert ids == [
        "s.tar/pair.left.png",
        "s.tar/pair.right.png",
        "s.tar/words",
        "s.tar/label.cls",
        "s.tar/noending",
        "s.tar/wrong",
        "s.tar/wrong.json",
    ]
    assert found[0].question == "Same?"
    reasons = {item.id: item.reason for item in found if isinstance(item, Dropped)}
    assert reasons == {}


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_entries_are_those_of_the_standard_library_in_every_tar_format(tmp_path, format):
    names = ["a.txt", "d/" * 60 + "deep.txt", "päth/ü.txt"]
    if format != tarfile.USTAR_FORMAT:
        names.append("n" * 300 + ".txt")
    path = write_tar(tmp_path / "t.tar", [(n, n.encode()) for n in names], format=format)
    with path.open("rb") as file:
        mine = [(e.name, e.size, e.offset) for e in tar_entries(file, path.stat().st_size)]
    with tarfile.open(path) as tar:
        theirs = [(m.name, m.size, m.offset_data) for m in tar]
    assert mine == theirs
    assert [name for name, _, _ in mine] == names


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_cut_anywhere_gives_every_whole_sample_and_one_reason(tmp_path, picture, mode):
    members = [m for k in range(6) for m in sample(f"{k:03d}", picture(k, size=(9, 9)))]
    path = write_tar(tmp_path / "whole.tar", members, mode)
    data = path.read_bytes()
    whole = [facts(item) for item in read_all(open_corpus(path))]
    assert len(whole) == 6
    with tarfile.open(path) as tar:
        ends = [m.offset_data + m.size for m in tar]
    cut = tmp_path / "whole" / "whole.tar"
    cut.parent.mkdir()
    for position in {1, 511, 512, 513, *random.Random(7).sample(range(1, len(data)), 120)}:
        cut.write_bytes(data[:position])
        found = read_all(open_corpus(cut))
        kept = [facts(item) for item in found if isinstance(item, CorpusItem)]
        lost = [item for item in found if isinstance(item, Dropped)]
        if mode == "w":
            full = sum(end <= position for end in ends[2::3])
            assert kept[:full] == whole[:full]
            assert len(kept) <= full + 1  # the sample that was cut may still have its image
        assert [k[:2] for k in kept] == [w[:2] for w in whole[: len(kept)]]
        if len(kept) < 6:
            assert len(lost) == 1
            assert lost[0].reason in ("tar cut short", "empty tar")
            assert lost[0].id == "whole.tar"


def test_noise_in_the_middle_never_raises(tmp_path, picture):
    path = write_tar(tmp_path / "t.tar", [m for k in range(4) for m in sample(str(k), picture(k))])
    data = bytearray(path.read_bytes())
    chance = random.Random(3)
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(chance.randrange(1, 40)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        path.write_bytes(broken)
        for item in read_all(open_corpus(path)):
            assert isinstance(item, CorpusItem | Dropped)


def test_a_damaged_header_ends_the_tar_with_a_reason_never_with_a_wrong_name(tmp_path, picture):
    path = write_tar(tmp_path / "t.tar", [(f"{k}.png", picture(k)) for k in range(3)])
    with tarfile.open(path) as tar:
        third = tar.getmembers()[2].offset
    data = bytearray(path.read_bytes())
    data[third] ^= 1  # one bit of the name
    path.write_bytes(data)
    *found, lost = read_all(open_corpus(path))
    assert [item.id for item in found] == ["t.tar/0", "t.tar/1"]
    assert (lost.id, lost.reason) == ("t.tar", "broken tar header")


def test_members_that_point_elsewhere_are_reported(tmp_path, picture):
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("../up.png", "/abs.png", "a/../../b.png"):
            member = tarfile.TarInfo(name)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"special{kind.decode()}.png")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    write_tar(path, [("ok.png", picture(1))], "a")
    found = read_all(open_corpus(path))
    assert [item.id for item in found if isinstance(item, CorpusItem)] == ["evil.tar/ok"]
    reasons = [item.reason for item in found if isinstance(item, Dropped)]
    assert reasons == ["member outside the archive"] * 3 + ["not a regular file"] * 4


def test_a_member_that_claims_to_be_huge_is_refused_unread(tmp_path):
    path = tmp_path / "huge.tar"
    member = tarfile.TarInfo("big.png")
    member.size = 1 << 33
    with path.open("wb") as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
        file.truncate(512 + (1 << 33))  # sparse on disk
        file.seek(0, 2)
        file.write(bytes(1024))
    (lost,) = read_all(open_corpus(path))
    assert lost.reason == "image file too large"


def test_members_after_the_end_mark_of_joined_tars_are_read(tmp_path, picture):
    one = write_tar(tmp_path / "1.tar", [("a.png", picture(1))]).read_bytes()
    two = write_tar(tmp_path / "2.tar", [("b.png", picture(2))]).read_bytes()
    joined = tmp_path / "joined.tar"
    joined.write_bytes(one + two)
    assert [item.id for item in read_all(open_corpus(joined))] == ["joined.tar/a", "joined.tar/b"]


def test_a_file_that_was_allocated_but_not_filled_is_reported(tmp_path, picture):
    path = write_tar(tmp_path / "half.tar", [("a.png", picture(1))])
    with path.open("r+b") as file:
        file.truncate(20_000_000)
    found = read_all(open_corpus(path))
    assert [type(item) for item in found] == [CorpusItem, Dropped]
    assert found[1].reason == "tar cut short"


def test_folders_and_patterns_of_tars_in_order_with_gaps_reported(tmp_path, picture):
    for number in (0, 1, 3, 10):
        write_tar(tmp_path / f"{number:05d}.tar", [(f"{number}.png", picture(number))])
    folder = open_corpus(tmp_path)
    assert folder.reader == "files"
    assert [shard.id for shard in folder.shards()] == [f"{n:05d}.tar" for n in (0, 1, 3, 10)]
    shards = list(folder.shards())
    assert [item.id for item in folder.read(shards[2])] == ["00003.tar/3"]
    pattern = open_corpus(f"{tmp_path}/{{00000..00003}}.tar")
    found = read_all(pattern)
    assert [item.id for item in found] == ["00000.tar/0", "00001.tar/1", "00002.tar", "00003.tar/3"]
    assert found[2].reason == "unreadable file"
    star = open_corpus(f"{tmp_path}/0000*.tar")
    assert [shard.id for shard in star.shards()] == ["00000.tar", "00001.tar", "00003.tar"]
