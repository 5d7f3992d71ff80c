"""A run made by the product itself, pages served from it, and a real browser to open them."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from texts_run import write_texts_run

from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.review import Desk, make_app, open_desks
from heldout.review.server import LOOPBACK, _listening
from heldout.scenes import write_benchmark, write_corpus
from heldout.store import Run

pytest.importorskip("fastapi")
TOKEN = "the-token-of-this-test"
HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="session")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve scenes against two dozen pictures, eight of them copies: ``run`` beside its data."""
    root = tmp_path_factory.mktemp("review")
    written = write_benchmark(root / "scenes", images=12)
    write_corpus(root / "web", written, items=36, shard_size=18)
    _audit(root)
    return root


@pytest.fixture
def run(scanned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(scanned / "run", tmp_path / "run"))


@pytest.fixture(scope="session")
def texts_scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts_run(tmp_path_factory.mktemp("texts"))


@pytest.fixture
def texts_run(texts_scanned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(texts_scanned, tmp_path / "texts"))


@pytest.fixture
def hostile_run(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    """File names, ids, captions, questions and options that are HTML."""
    root = tmp_path / "hostile"
    (root / "scenes").mkdir(parents=True)
    image = picture(1, size=(64, 48))
    name = HOSTILE.replace("/", "_") + ".png"
    (root / "scenes" / name).write_bytes(image)
    row = {
        "id": f"<script>window.hacked=1</script>{HOSTILE}",
        "image": name,
        "question": f"What?{HOSTILE}\u202e",
        "options": [f"a{HOSTILE}", "<b>b</b>"],
        "answer": f"a{HOSTILE}",
        "source": HOSTILE,
    }
    (root / "scenes/test.jsonl").write_text(json.dumps(row) + "\n")
    (root / "web").mkdir()
    with tarfile.open(root / "web/0.tar", "w") as tar:
        for member, data in (
            (f"{HOSTILE}.png", image),
            (f"{HOSTILE}.txt", f"caption {HOSTILE}<script>window.hacked=1</script>".encode()),
        ):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    _audit(root)
    return root / "run"


def _audit(root: Path) -> None:
    with LocalEngine(1) as engine:
        benchmark = read_benchmark(root / "scenes", name="scenes")
        corpus = open_corpus(root / "web", name="web")
        audit_overlap(benchmark, [corpus], Run.create(root / "run"), engine, text=False, quiet=True)


Serving = Callable[..., str]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """serving(run, rater="ada", …) → the address of a page in this process."""
    uvicorn = pytest.importorskip("uvicorn")
    with ExitStack() as stack:

        def start(source: Path | Desk, rater: str = "ada", **options: Any) -> str:
            desks = (
                [source]
                if isinstance(source, Desk)
                else open_desks(str(source), rater=rater, **options)
            )
            listening = _listening(0)
            port = listening.getsockname()[1]
            app = make_app(*desks, token=TOKEN, port=port)
            config = uvicorn.Config(app, log_level="error", lifespan="off")
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()

            def stop() -> None:
                server.should_exit = True
                thread.join(10)
                listening.close()

            stack.callback(stop)
            return f"http://{LOOPBACK}:{port}/?token={TOKEN}"

        yield start


@pytest.fixture
def process() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """process(run, …) → the command as a user types it, in a process that can be killed."""
    started: list[subprocess.Popen[str]] = []

    def start(run: Path, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "heldout", "review", str(run), "--no-browser", *arguments]
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        started.append(server)
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("review: "):
                return server, line.split()[1]
        raise AssertionError("the server ended before it was ready")

    yield start
    for server in started:
        server.kill()
        server.wait()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A tab of its own profile that fails the test if any script of the page did."""
    context = browser.new_context(viewport={"width": 1280, "height": 820})
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    context.close()
    assert not errors


@pytest.fixture
def twins_run(run: Path, picture: Callable[..., bytes]) -> Path:
    """Two twins, and a row that names a file outside the run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (run / "twins").mkdir()
    for name in ("original", "edges", "picture"):
        (run / "twins" / f"{name}.png").write_bytes(picture(len(name), size=(96, 72)))
    (run.parent / "secret.png").write_bytes(picture(9))
    rows = [
        {
            "benchmark_id": f"t{number}",
            "image_name": "scene.png",
            "question": "Which colour has the star?",
            "options": ["red", "blue"],
            "old_answer": "red",
            "new_answer": "blue",
            "caption": "a blue star",
            "original": "twins/original.png",
            "edges": "twins/edges.png",
            "picture": "twins/picture.png" if number < 2 else "../secret.png",
            "renderer": "scenes",
            "verifier": "keep",
            "verifier_reason": "the star is blue",
            "people": None,
            "kept": True,
        }
        for number in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), run / "tables/twins.parquet")
    return run
