"""Fixtures every test may use."""

from __future__ import annotations

import gc
import io
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from command_line import forked_workers as forked_workers  # a fixture
from heldout.benchmark import benchmark
from heldout.image import digest_image
from heldout.model.endpoint import connection as pace
from heldout.overlap import settings
from ray_nodes import ray_connection as ray_connection  # a fixture
from rewriting import collect_constants, compile_libraries, rewrite_tests
from skips import SkipSummary

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_ENCODER = settings.DEFAULT_ENCODER
# Chromium starts two hidden pages of its address bar beside every page, more than a second of CPU each time, and
# a process for a page that may come next. The switch counts once, so what Playwright turns off is named again.
NOTHING_BESIDE = (
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess,"
    "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,LensOverlay,MediaRouter,"
    "OptimizationHints,PaintHolding,ThirdPartyStoragePartitioning"
)
sys.path.append(str(ROOT / "bench"))  # replications of published studies are tested like the rest


def pytest_configure(config: pytest.Config) -> None:
    # Tests start hundreds of processes. Where bytecode may not be written, each of them compiles every
    # module again, which takes longer than most of them run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Work runs in the process that asks for it; tests that are about worker processes say how many.
    os.environ.setdefault("HELDOUT_CORES", "1")
    # No test cuts the power: what is written need not wait for the disk, and thousands of small files do.
    os.fsync = _no_wait
    if not hasattr(config, "workerinput"):  # with xdist, the controller alone sees every report
        config.pluginmanager.register(SkipSummary(_is_whole(config)))
    elif _is_whole(config):
        compile_libraries(config)
        rewrite_tests(config, ROOT / "tests")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """When Hypothesis is through with its own beginning: earlier it would warn."""
    config = session.config
    if hasattr(config, "workerinput") and _is_whole(config):
        collect_constants(config, ROOT / "src")


def _is_whole(config: pytest.Config) -> bool:
    return [Path(name).resolve() for name in config.args] == [ROOT / "tests"]


def _no_wait(file: int) -> None:
    """In place of os.fsync."""


def pytest_collection_finish() -> None:
    """Modules live as long as the process: collecting garbage need not look through them each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Ray come first. They wait more than they work, and workers that have nothing left take
    tests from the end of another's list: one cluster serves them all."""
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)


@pytest.fixture(scope="session", autouse=True)
def _without_encoder() -> Iterator[None]:
    """Pictures are compared by bytes, pixels and hashes; tests that are about near search name an encoder
    or ask for ``default_encoder``. It takes longer than all the rest of most runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "DEFAULT_ENCODER", None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _real_pictures_once() -> Iterator[None]:
    """Real data does not change while tests run, and a dozen of them check the same collections: each of its
    pictures is decoded once in a process."""
    data = str(Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")).resolve() / "data")
    known: dict[Any, Any] = {}

    def digest(ref: Any) -> Any:
        place = os.path.realpath(getattr(ref.location, "path", ""))
        if not place.startswith(data):
            return digest_image(ref)
        if place not in known:
            known[place] = digest_image(ref)
        return known[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "digest_image", digest)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests of a process: playwright starts no second one beside it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this system: pages are tested in a real browser or not at all")
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", NOTHING_BESIDE]
        chromium = started.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def default_encoder() -> Iterator[None]:
    """A search that names no encoder has the one that users have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "DEFAULT_ENCODER", DEFAULT_ENCODER)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout, or where HELDOUT_SHARED points."""
    shared = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared"))
    data = shared / "data"
    if not data.is_dir():
        pytest.skip(f"real data is not at {data} (set HELDOUT_SHARED)")
    return data


@pytest.fixture
def wording(request: pytest.FixtureRequest) -> Callable[..., None]:
    """wording(…): texts and claims of a test are those that tests/wording/ has for it, one page per test file.

    Other tests assert on fields, codes and numbers. HELDOUT_WORDING=write writes the pages anew: read the
    difference before you commit it.
    """
    page = ROOT / "tests/wording" / f"{request.path.stem.removeprefix('test_')}.md"
    name = request.node.name

    def compare(*texts: object) -> None:
        shown = "\n\n".join(_in_words(text) for text in texts)
        parts = page.read_text(encoding="utf-8").split("\n## ")[1:] if page.exists() else []
        sections = dict(part.rstrip().split("\n\n", 1) for part in parts)
        if os.environ.get("HELDOUT_WORDING") == "write":
            sections[name] = shown
            written = "".join(f"\n## {key}\n\n{sections[key]}\n" for key in sorted(sections))
            page.write_text(f"# Wording in {request.path.name}\n{written}", encoding="utf-8")
        assert shown == sections.get(name), f"{page.name}: {name}"

    return compare


def _in_words(text: object) -> str:
    """A claim with all its sentences, one per line; any other text as it is."""
    from heldout.verdict import Claim

    if not isinstance(text, Claim):
        return str(text)
    controls = [f"- {one.name}: {one.outcome}: {one.reason}" for one in text.controls]
    lines = [f"{text.status} ({text.rule}): {text.sentence}", f"why: {text.why}", *controls]
    return "\n".join([*lines, f"next: {text.next_step}"])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that fails is given up on within the second."""
    monkeypatch.setattr(pace.Backoff.__init__, "__defaults__", (3, 0.01, 0.05))


@pytest.fixture
def picture() -> Callable[..., bytes]:
    """picture(seed) → the bytes of a small noisy image, different for every seed."""

    def make(seed: int, size: tuple[int, int] = (24, 16), format: str = "PNG") -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        buffer = io.BytesIO()
        options = {"lossless": True} if format == "WEBP" else {}
        Image.fromarray(pixels).save(buffer, format, **options)
        return buffer.getvalue()

    return make


@pytest.fixture(scope="session")
def near_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bench`` with 5 pictures, ``corpus`` with 15 tars of 2. Every fifth tar holds a disguised copy, one a
    copy as it is, one a file that is no picture."""
    folder = tmp_path_factory.mktemp("near")
    rng = np.random.default_rng(0)

    def texture() -> Image.Image:
        layers = [
            Image.fromarray(rng.integers(0, 256, (side, side), dtype=np.uint8)).resize((128, 128))
            for side in (6, 16, 40)
        ]
        return Image.fromarray(np.mean([np.asarray(layer) for layer in layers], 0).astype("u1"))

    def jpeg(image: Image.Image) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=80)
        return buffer.getvalue()

    (folder / "bench").mkdir()
    (folder / "corpus").mkdir()
    ours = [texture() for _ in range(5)]
    rows = []
    for number, image in enumerate(ours):
        image.save(folder / f"bench/{number}.png")
        rows.append({"id": number, "image": f"{number}.png", "question": "?", "answer": "a"})
    (folder / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for shard in range(15):
        pictures = [jpeg(texture()), jpeg(texture())]
        if shard % 5 == 0:
            known = ours[shard // 5]
            pictures[1] = jpeg(ImageOps.mirror(known) if shard % 2 else known.resize((200, 200)))
        if shard == 3:
            pictures[0] = (folder / "bench/4.png").read_bytes()
        if shard == 8:
            pictures[0] = b"not an image"
        with tarfile.open(folder / f"corpus/{shard:05d}.tar", "w") as tar:
            for index, data in enumerate(pictures):
                member = tarfile.TarInfo(f"{index}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return folder
