"""Web servers: ranges, index pages, logins and signatures that stay secret, redirects."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import polars as pl
import pytest
from test_remote_corpora import contents, folder_of_images, tars, zips

from heldout.audit import audit_overlap
from heldout.benchmark import parse_source, read_benchmark
from heldout.corpus import open_corpus
from heldout.cure import sanitize
from heldout.errors import InputError
from heldout.image import ImageError
from heldout.remote import NO_RANGES, RemoteError, located, use_cache


@pytest.mark.parametrize("write", [folder_of_images, tars, zips])
def test_a_corpus_reads_from_the_web_as_from_disk(write, web, picture) -> None:
    (web.folder / "set").mkdir()
    write(web.folder / "set", picture)
    remote = open_corpus(f"{web.address}/set/")
    assert contents(remote) == contents(open_corpus(web.folder / "set"))


def test_ranges_are_asked_for(web) -> None:
    (web.folder / "x.bin").write_bytes(bytes(range(256)) * 40_000)
    with located(f"{web.address}/x.bin").open("rb") as file:
        file.seek(5_000_000)
        assert file.read(4) == bytes([64, 65, 66, 67])
    assert [span for _, span in web.seen if span] == [f"bytes=5000000-{5_000_000 + 262_143}"]


def test_names_with_blanks_and_signs(web, picture) -> None:
    (web.folder / "a b").mkdir()
    (web.folder / "a b" / "x#1 ü%.png").write_bytes(picture(1))
    (item,) = contents(open_corpus(f"{web.address}/a%20b"))
    assert item[1:3] == ("x#1 ü%.png", picture(1))


def test_a_server_without_ranges_is_read_through_a_cache(web, tmp_path: Path) -> None:
    web.ranges = False
    data = bytes(1_000_000) + b"end"
    (web.folder / "x.bin").write_bytes(data)
    with pytest.raises(RemoteError, match=f"{NO_RANGES}.*cache"):
        located(f"{web.address}/x.bin").open("rb").read()
    use_cache(tmp_path / "copies", 1)
    assert located(f"{web.address}/x.bin").open("rb").read() == data


def test_a_login_and_a_signature_are_used_and_not_shown(
    web, picture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "httpx")
    tars(web.folder, picture)
    web.signature = "sig=s3cr3t-signature"
    web.login = "Basic " + base64.b64encode(b"ann:pass-word").decode()
    address = web.address.replace("://", "://ann:pass-word@")
    corpus = open_corpus(f"{address}/000.tar?sv=1&sig=s3cr3t-signature")
    assert len(contents(corpus)) == 5
    shown = repr(corpus) + repr(list(corpus.shards())) + corpus.source + caplog.text
    assert "HTTP Request" in caplog.text
    assert "s3cr3t" not in shown
    assert "pass-word" not in shown
    web.signature = "another"
    with pytest.raises((InputError, RemoteError)) as caught:
        open_corpus(f"{address}/001.tar.gz?sig=s3cr3t-signature")
    assert "s3cr3t" not in str(caught.value)


def test_a_signature_is_sent_to_what_it_was_given_for_only(web, picture) -> None:
    tars(web.folder, picture)
    open_corpus(f"{web.address}/000.tar?sig=s3cr3t-signature")
    web.seen.clear()
    open_corpus(f"{web.address}/001.tar.gz")
    assert not any("sig" in path for path, _ in web.seen)


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://host/x"])
def test_redirects_lead_to_web_addresses_only(web, target: str) -> None:
    web.redirect = target
    with pytest.raises(RemoteError, match="no web address"):
        located(f"{web.address}/moved").exists()


def test_credentials_do_not_belong_in_addresses_of_stores() -> None:
    with pytest.raises(InputError, match="environment") as caught:
        parse_source("s3://AKIAKEY:secretsecret@bucket/x")
    assert "secretsecret" not in str(caught.value)


def test_a_web_page_is_no_corpus(web) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_corpus(f"{web.address}/nothing.tar")


def test_a_signed_file_is_read_though_its_neighbours_are_closed(web) -> None:
    rows = [{"image": "x.png", "question": f"What is {n}?", "answer": "a"} for n in range(3)]
    (web.folder / "bench.json").write_text(json.dumps(rows))
    web.signature = "sig=s3cr3t"
    benchmark = read_benchmark(f"{web.address}/bench.json?sig=s3cr3t")
    assert len(benchmark) == 3
    with pytest.raises(ImageError, match="missing image"):
        benchmark.images[0].read()


def _json_rows(folder: Path, rows: list[dict[str, str]]) -> str:
    (folder / "test.json").write_text(json.dumps(rows, indent=1))
    return "test.json"


def _parquet(folder: Path, rows: list[dict[str, str]]) -> str:
    pl.DataFrame(rows).write_parquet(folder / "test.parquet")
    return "test.parquet"


def _captioned(folder: Path, rows: list[dict[str, str]]) -> str:
    for row in rows:
        (folder / row["image"]).with_suffix(".txt").write_text(row["question"])
    return "images"


@pytest.mark.parametrize("write", [_json_rows, _parquet, _captioned])
def test_a_clean_split_of_a_benchmark_on_the_web_is_written_here(
    write, web, picture, tmp_path: Path
) -> None:
    bench = web.folder / "bench"
    (bench / "images").mkdir(parents=True)
    rows = [
        {"id": f"i{n}", "image": f"images/{n}.png", "question": f"What is {n}?", "answer": "a"}
        for n in range(4)
    ]
    for number in range(4):
        (bench / f"images/{number}.png").write_bytes(picture(number))
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "copy.png").write_bytes(picture(1))
    place = write(bench, rows)
    written = []
    for source in (f"{web.address}/bench/{place}", str(bench / place)):
        out = tmp_path / f"out{len(written)}"
        quick = {"exact": True, "text": False, "quiet": True}
        done = audit_overlap(source, tmp_path / "train", tmp_path / f"run{len(written)}", **quick)
        split = sanitize(source, run=done.run, out=out, quiet=True)
        assert split.manifest["differences"] == []
        assert split.manifest["clean"]["items"] == 3
        files = sorted(path for path in (out / "clean").rglob("*") if path.is_file())
        written.append([(str(path.relative_to(out)), path.read_bytes()) for path in files])
    assert written[0] == written[1]
    assert any(name.endswith(".png") for name, _ in written[0])


def test_a_clean_split_whose_pictures_cannot_be_read_again_is_not_written(
    web, picture, tmp_path: Path
) -> None:
    (web.folder / "images").mkdir()
    for number in range(2):
        (web.folder / f"images/{number}.png").write_bytes(picture(number))
    rows = [{"id": f"i{n}", "image": f"images/{n}.png", "question": f"{n}?"} for n in range(2)]
    source = f"{web.address}/{_json_rows(web.folder, rows)}"
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "copy.png").write_bytes(picture(1))
    quick = {"exact": True, "text": False, "quiet": True}
    done = audit_overlap(source, tmp_path / "train", tmp_path / "run", **quick)
    opened = read_benchmark(source)
    opened.identify()
    web.signature = "sig=now-needed"
    with pytest.raises(InputError, match=r"test\.json|images"):
        sanitize(opened, run=done.run, out=tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
