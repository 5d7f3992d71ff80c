"""Addresses and folders that are wrong: one sentence that says what was expected, and no secret in it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import servers
from test_remote_corpora import contents, tars
from test_remote_runs import QUICK, dropped, texts_below

from command_line import run_inside
from heldout.audit import audit_overlap
from heldout.benchmark import parse_source, read_benchmark
from heldout.corpus import open_corpus
from heldout.errors import InputError, PrerequisiteError
from heldout.remote import NO_RANGES, use_cache
from heldout.remote._transfer import persist


def bench(folder: Path, picture) -> None:
    """A table and, in another folder, its three pictures."""
    (folder / "pictures").mkdir(parents=True)
    for number in range(3):
        (folder / "pictures" / f"{number}.png").write_bytes(picture(number))
    rows = [{"image": f"{n}.png", "question": f"What is {n}?", "answer": "a"} for n in range(3)]
    (folder / "bench.json").write_text(json.dumps(rows))


def test_the_folder_of_images_may_be_an_address_with_a_signature(
    web, picture, tmp_path: Path
) -> None:
    bench(web.folder, picture)
    web.signature = "sig=s3cr3t-signature"
    address, query = web.address, "?sig=s3cr3t-signature"
    (tmp_path / "corpora.yaml").write_text(
        f'corpora: [{{name: a, source: "{address}/bench.json{query}", images: "{address}/pictures{query}"}}]'
    )
    done = run_inside(
        "overlap",
        f"{address}/bench.json{query}",
        "--images",
        f"{address}/pictures{query}",
        "--against",
        tmp_path / "corpora.yaml",
        "--out",
        tmp_path / "run",
        "--exact",
        "--no-text",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    sources = json.loads((tmp_path / "run" / "sources.json").read_text())["sources"]
    assert [(source["rows"], source["leaked_items"]) for source in sources] == [(3, 3)]
    texts = [*texts_below(tmp_path / "run"), done.stdout, done.stderr]
    assert not any("s3cr3t" in text for text in texts)
    web.signature = "expired"
    with pytest.raises(InputError, match="images: .*/pictures") as caught:
        read_benchmark(f"{address}/bench.json", images=f"{address}/pictures{query}")
    assert "s3cr3t" not in str(caught.value)


def test_a_wrong_selection_does_not_repeat_the_credentials() -> None:
    with pytest.raises(InputError, match="https://host/x#bad") as caught:
        parse_source("https://ann:pass-word@host/x?sig=s3cr3t#bad")
    assert "pass-word" not in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_an_empty_bucket_exists(proxy, bucket: str) -> None:
    assert not list(open_corpus(f"s3://{bucket}").shards())


def test_schemes_in_capitals_are_those_in_small_letters(
    proxy, s3: str, bucket: str, picture, tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    tars(tmp_path / "set", picture)
    servers.upload(servers.s3_client(s3), bucket, tmp_path / "set", "set/")
    corpus = open_corpus(f"S3://{bucket}/set")
    assert corpus.source == f"s3://{bucket}/set"
    assert contents(corpus) == contents(open_corpus(tmp_path / "set"))


@pytest.mark.parametrize("address", ["s3://", "gs:///", "https://"])
def test_an_address_names_a_bucket_or_a_host(address: str) -> None:
    with pytest.raises(InputError, match=f"expected {address.rstrip('/')}//"):
        parse_source(address)


def test_other_addresses_are_told_which_are_read() -> None:
    with pytest.raises(InputError, match=r"s3://.*hf://"):
        open_corpus("ftp://host/x")
    with pytest.raises(InputError, match=r"ftp://host/x .*s3://.*hf://"):
        read_benchmark("ftp://host/x")


def test_azure_without_an_account_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adlfs", reason="needs the extra remote")
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match=r"access refused: .*AZURE_STORAGE_CONNECTION_STRING"):
        open_corpus("az://container/x")


def test_a_dataset_that_the_hub_does_not_have_is_a_mistake_of_the_command(tmp_path: Path) -> None:
    with servers.serving(servers.hub_server(tmp_path, "owner/set", "0" * 40)) as hub:
        environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_TELEMETRY": "1"}
        command = "from heldout.cli import main; main()"
        words = ["check", "hf://datasets/owner/another"]
        done = subprocess.run(
            [sys.executable, "-c", command, *words], env=environment, capture_output=True, text=True
        )
    assert done.returncode == InputError.exit_code, done.stderr
    assert "HF_TOKEN" in done.stderr


def test_a_cache_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cache: .*a file"):
        use_cache(tmp_path / "file", 1)
    with pytest.raises(InputError, match="cache: "):
        use_cache(tmp_path / "file" / "below", 1)


def test_the_same_command_with_a_cache_reads_what_came_without_ranges(
    web, picture, tmp_path: Path
) -> None:
    bench(tmp_path / "bench", picture)
    (web.folder / "set").mkdir()
    tars(web.folder / "set", lambda n: picture(n) + bytes(400_000))  # longer than one range
    web.ranges = False
    places = (tmp_path / "bench" / "bench.json", f"{web.address}/set", tmp_path / "run")
    first = audit_overlap(*places, **QUICK)
    assert {reason for _, reason in dropped(first)} == {NO_RANGES}
    second = audit_overlap(*places, cache=str(tmp_path / "copies"), **QUICK)
    assert not dropped(second)


def test_a_library_that_turns_logging_on_shows_no_requests(
    web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("httpx"), "level", logging.NOTSET)
    caplog.set_level(logging.INFO)
    (web.folder / "set").mkdir()
    tars(web.folder / "set", lambda _: b"x")
    open_corpus(f"{web.address}/set")
    assert "HTTP Request" not in caplog.text


def test_a_package_that_a_backend_lacks_is_named_and_not_tried_again() -> None:
    tries = []

    def action() -> None:
        tries.append(1)
        raise ModuleNotFoundError("No module named 'oauth'", name="oauth")

    with pytest.raises(PrerequisiteError, match=r"'oauth'.*heldout\[remote\]"):
        persist("gs://bucket/x", action)
    assert len(tries) == 1
