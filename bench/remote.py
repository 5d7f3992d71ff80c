"""Remote corpora, measured: python bench/remote.py listing [--objects 1000000] | faults [--data ../shared/data] |
stores [--azurite node_modules/.bin/azurite-blob]

``listing``: names of a bucket of a million objects through s3fs, from a server on this machine that makes up
its pages; peak memory at a tenth and at all of them, and what is asked for again after a kill in the middle.
``faults``: VQA-RAD against VQA-Med 2019 from an S3 server (moto) with injected faults, next to the same from disk.
``stores``: every format of a corpus, a benchmark and a search, from servers that speak S3 (moto), Google's interface
(gcp-storage-emulator) and Azure's (Azurite, from ``npm install azurite``), beside the same from disk.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHILD = """
import resource, sys, time
from heldout.remote import files_below, located
start, count = time.monotonic(), 0
for child in files_below(located("s3://bucket/prefix")):
    count += 1
    if count % 100_000 == 0:
        print("at", count, flush=True)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print("done", count, f"{peak:.0f}", f"{time.monotonic() - start:.0f}")
"""


class _Pages(http.server.BaseHTTPRequestHandler):
    """ListObjectsV2 over names that are made up: prefix/000000000.jpg and so on."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server: Any = self.server
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        after = re.search(r"(\d+)\.jpg", query.get("start-after", [""])[0])
        start = int(after[1]) + 1 if after else 0
        names = range(start, min(start + 1000, server.objects))
        entries = "".join(
            f"<Contents><Key>prefix/{number:09}.jpg</Key><Size>40000</Size>"
            f'<ETag>"{number:032x}"</ETag></Contents>'
            for number in names
        )
        more = "true" if start + 1000 < server.objects else "false"
        body = (
            f"<ListBucketResult><Name>bucket</Name><IsTruncated>{more}</IsTruncated>"
            f"<KeyCount>{len(names)}</KeyCount>{entries}</ListBucketResult>"
        ).encode()
        server.requests += 1
        self.send_response_only(200)
        self.send_header("content-type", "application/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _served(objects: int) -> Any:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    server.objects, server.requests = objects, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _child(server: Any, cache: str, kill_at: int = 0) -> list[str]:
    """The last line that a process which lists the bucket prints."""
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "HELDOUT_CACHE": cache,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = ""
    for line in process.stdout:
        if kill_at and line == f"at {kill_at}\n":
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    return line.split()


def listing(objects: int) -> None:
    print("| objects | requests | peak memory, MB | seconds |\n|---|---|---|---|")
    for count in (objects // 100, objects // 10, objects):
        server = _served(count)
        with tempfile.TemporaryDirectory() as cache:
            _, names, peak, seconds = _child(server, cache)
        assert int(names) == count
        print(f"| {count:,} | {server.requests:,} | {peak} | {seconds} |", flush=True)
        server.shutdown()
    server, half = _served(objects), objects // 2
    with tempfile.TemporaryDirectory() as cache:
        _child(server, cache, kill_at=half)
        server.requests = 0
        _, names, peak, seconds = _child(server, cache)
    assert int(names) == objects
    print(f"| killed at {half:,}, then continued | {server.requests:,} | {peak} | {seconds} |")


def faults(data: Path, share: float) -> None:
    sys.path.append(str(ROOT / "tests" / "remote"))
    import servers  # type: ignore[import-not-found]

    import heldout

    with tempfile.TemporaryDirectory() as name, servers.s3_server(Path(name, "log")) as address:
        folder = Path(name)
        rad, med = data / "vqa_rad", data / "vqa_med_2019"
        shutil.copytree(rad / "images", folder / "data/rad/images")
        rows = json.loads((rad / "mevf_trainset.json").read_text())
        chosen = list({row["image_name"]: row for row in rows}.values())
        (folder / "data/rad/train.json").write_text(json.dumps(chosen))
        for part in ("train_images", "val_images"):
            shutil.copytree(med / part, folder / "data/med" / part)
        client = servers.s3_client(address)
        client.create_bucket(Bucket="corpora")
        servers.upload(client, "corpora", folder / "data")
        print(
            "| from | faults | images of VQA-Med that are VQA-RAD's | dropped | requests | seconds |"
        )
        print("|---|---|---|---|---|---|")
        for place in ("disk", "s3"):
            with servers.serving(servers.FaultyProxy(address, share)) as proxy:
                os.environ.update(servers.s3_environment(proxy.address), HELDOUT_CACHE=name)
                root = str(folder / "data") if place == "disk" else "s3://corpora"
                start = time.monotonic()
                result = heldout.overlap(
                    f"{root}/rad/train.json",
                    f"{root}/med",
                    folder / place,
                    encoder="none",
                    text=False,
                    quiet=True,
                )
                same = result.matches.filter(result.matches["relation"] == "same image")
                lost = result.run.read_table("dropped").num_rows
                failed = proxy.faults["throttle"] + proxy.faults["reset"]
                seconds = time.monotonic() - start
                print(
                    f"| {place} | {failed} | {same['corpus_id'].n_unique()} | {lost} | "
                    f"{len(proxy.requests):,} | {seconds:.0f} |",
                    flush=True,
                )


def stores(azurite: str | None) -> None:
    sys.path.append(str(ROOT / "tests" / "remote"))
    import servers

    columns = (
        "formats as from disk",
        "benchmark",
        "search",
        "changed object",
        "wrong key",
        "secrets",
    )
    print(f"| store | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        os.environ["HELDOUT_CACHE"] = str(folder / "cache")
        opened = [
            servers.Amazon(stack.enter_context(servers.s3_server(folder / "s3.log"))),
            servers.Google(stack.enter_context(servers.google_server(folder / "gs.log"))),
        ]
        if azurite:
            server = servers.azure_server(folder / "az.log", azurite)
            opened.append(servers.Azure(stack.enter_context(server)))
        for store in opened:
            os.environ.update(store.environment)
            print(f"| `{store.scheme}` | {' | '.join(_tried(store, folder))} |", flush=True)


def _tried(store: Any, folder: Path) -> Iterator[str]:
    """How a store did, column by column."""
    import servers
    import test_remote_corpora as formats  # type: ignore[import-not-found]

    import heldout
    from heldout.benchmark import read_benchmark
    from heldout.corpus import open_corpus
    from heldout.remote import CHANGED, REFUSED, RemoteError
    from heldout.remote._transfer import facts_of, fetch
    from heldout.remote.stores import renew_stores
    from nodes import write_data

    kinds = ("folder_of_images", "tars", "zips", "parquet", "texts", "table")
    same = 0
    for kind in kinds:
        place = folder / kind
        if not place.exists():
            place.mkdir()
            getattr(formats, kind)(place, _picture)
        bucket = kind.replace("_", "-")
        servers.fill(store, bucket, place, "some/data/")
        remote = open_corpus(f"{store.scheme}://{bucket}/some/data/")
        same += formats.contents(remote) == formats.contents(open_corpus(place))
    yield f"{same} of {len(kinds)}"
    address = f"{store.scheme}://table/some/data/train.json"
    both = read_benchmark(folder / "table/train.json"), read_benchmark(address)
    seen = [(each.fingerprint, [image.read() for image in each.images]) for each in both]
    yield "same" if seen[0] == seen[1] else "NOT THE SAME"
    if not (folder / "set").exists():
        write_data(folder / "set", 20)
    servers.fill(store, "set", folder / "set")
    quick: dict[str, Any] = {"encoder": "none", "text": False, "quiet": True}
    runs = []
    for root, run in ((str(folder / "set"), "disk"), (f"{store.scheme}://set", store.scheme)):
        runs.append(
            heldout.overlap(f"{root}/bench", f"{root}/corpus", folder / "runs" / run, **quick)
        )
    columns = ["benchmark_id", "corpus_id", "method", "similarity", "relation"]
    tables = [result.matches.select(columns).sort(columns) for result in runs]
    yield f"{len(tables[1])} matches, {'same' if tables[0].equals(tables[1]) else 'NOT THE SAME'}"
    facts = facts_of(address)
    assert facts is not None
    store.put("table", "some/data/train.json", b"x" * facts.size)
    try:
        fetch(address, 0, facts.size, facts)
        yield "NOT NOTICED"
    except RemoteError as error:
        yield "noticed" if error.reason == CHANGED else error.reason
    secrets = {name: os.environ.get(name, "") for name in store.secrets}
    written = b"".join(
        p.read_bytes() for p in folder.glob(f"runs/{store.scheme}/**/*") if p.is_file()
    )
    found = sum(store.key.encode() in written for _ in secrets)
    if not secrets or store.scheme == "s3":  # moto and Google's have no doors
        yield "not asked for"
    else:
        other = store.key.replace("a", "b").replace("1", "2")
        os.environ.update({n: v.replace(store.key, other) for n, v in secrets.items()})
        renew_stores()
        try:
            facts_of(f"{store.scheme}://set/bench/test.jsonl")
            yield "ACCEPTED"
        except RemoteError as error:
            yield (
                error.reason if error.reason == REFUSED and other not in str(error) else str(error)
            )
        os.environ.update(secrets)
        renew_stores()
    yield f"{found} in the run folder" if secrets else "none"


def _picture(number: int) -> bytes:
    import io

    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(number).integers(0, 256, (24, 24, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("listing", "faults", "stores"))
    parser.add_argument("--azurite", help="its program azurite-blob")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--share", type=float, default=0.05)
    chosen = parser.parse_args()
    if chosen.what == "listing":
        listing(chosen.objects)
    elif chosen.what == "stores":
        stores(chosen.azurite)
    else:
        faults(chosen.data, chosen.share)
