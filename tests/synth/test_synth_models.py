"""The whole pipeline against a real HTTP server: repeatable, resumable, and robust to what servers do."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from item_serving import ItemServer
from PIL import Image

from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.model import ModelEndpoint, open_endpoint
from heldout.model.endpoint import Backoff, settings
from heldout.model.endpoint._read import data_url
from heldout.model.request import Prompt, Reply, Request, Text
from heldout.report.synthesis import read_facts
from heldout.scenes import write_benchmark
from heldout.store import Run
from heldout.synth import Synthesis, SynthSettings, SynthStage, synth
from heldout.synth.context import StageContext, StageModel
from heldout.synth.ledger import table_path
from ray_nodes import RayCluster

MADE = [stage for stage in SynthStage if stage is not SynthStage.DECONTAMINATE]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits between attempts; everything else is as users have it."""
    monkeypatch.setattr(settings, "Backoff", lambda *attempts: Backoff(3, first_seconds=0.01))


def make(
    source: Path, server: ItemServer, out: Path, how: str = "plain", **values: Any
) -> Synthesis:
    """One synthesis; ``how`` is how the generator behaves."""
    settings: dict[str, Any] = {
        "source": str(source),
        # Only the faulty server is too slow on purpose; a busy machine is, too.
        "generator": {"url": server.url(how, "writer"), "timeout": 1.0 if how == "faulty" else 60},
        "verifier": {"url": server.url("plain", "referee")},
        "shortcut": {"url": server.url("plain", "reader")},
        "labels": ("all",),
        "stages": tuple(MADE),
    }
    return synth(out=out, quiet=True, **{**settings, **values})


def tables(made: Synthesis) -> dict[str, list[dict[str, Any]]]:
    """The rows of every stage, without the run folder's own name."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for stage in SynthStage:
        rows[stage] = made.frame(stage).to_dicts()
    rows["dropped"] = made.dropped.to_dicts()
    rows["items"] = made.items.to_dicts()
    return rows


def manifest(made: Synthesis) -> dict[str, Any]:
    entry: dict[str, Any] = made.run.manifest()["synth"]
    return entry


def test_two_runs_make_the_same_tables_and_a_second_call_pays_nothing(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    first = make(captioned, item_server, tmp_path / "a")
    paid = item_server.counts()
    assert paid["most"] == 1  # no prompt was asked twice
    assert len(first.items) > 0
    steps = {step.name: step for step in first.funnel.steps}
    assert (
        steps["verify: essentials"].reasons["essential: self-contained"] > 0
    )  # "According to the caption"
    assert steps["verify: score"].reasons["score below the threshold"] > 0  # weak distractors
    # Every rejection is among what was dropped, with its reason and what was wrong.
    rejected = first.verdicts.filter(~pl.col("accepted"))
    dropped = first.dropped.filter(pl.col("stage") == "verify")
    assert dropped.select("id", "reason").equals(rejected.select("id", "reason"))
    weak = dropped.filter(pl.col("reason") == "score below the threshold")
    assert set(weak["detail"]) == {"distractors: by rule"}
    again = make(captioned, item_server, tmp_path / "a")
    assert item_server.counts()["answered"] == paid["answered"]
    assert tables(again) == tables(first)
    assert tables(make(captioned, item_server, tmp_path / "b")) == tables(first)
    other = make(captioned, item_server, tmp_path / "c", seed=7)
    assert tables(other)["balance"] != tables(first)["balance"]


def test_what_is_missing_is_said_before_anything_is_asked(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    for values, told in (
        ({"against": (str(tmp_path / "nothing.jsonl"),), "stages": ()}, "nothing.jsonl"),
        ({"verifier": None}, "needs the setting verifier"),
        ({"verifier": {"url": "http://x/v1", "api_key_env": "NO_SUCH"}}, "NO_SUCH"),
        ({"stages": tuple(SynthStage)}, "needs the setting against"),
    ):
        with pytest.raises(InputError, match=told):
            make(captioned, item_server, tmp_path / "a", **values)
    assert item_server.counts()["answered"] == 0


def test_what_was_spent_is_what_the_server_counted(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    prices = {"price_in": 1.0, "price_out": 2.0}
    generator = {"url": item_server.url("plain", "writer"), **prices}
    made = make(captioned, item_server, tmp_path / "a", generator=generator)
    assert sum(cost.requests for cost in made.spent) == item_server.counts()["answered"]
    spent = {cost.stage: cost for cost in made.spent}
    # 200 tokens and 300 more per image, 80 for a reply: what the server says
    assert (spent["generate"].prompt_tokens, spent["generate"].reply_tokens) == (16 * 500, 16 * 80)
    assert spent["generate"].price == pytest.approx((16 * 500 + 2 * 16 * 80) / 1e6)
    planned = make(captioned, item_server, tmp_path / "p", generator=generator, plan=True)
    assert planned.costs[0].requests == spent["generate"].requests
    assert planned.spent == [] and planned.costs[0].done == 0
    left = make(captioned, item_server, tmp_path / "a", generator=generator, plan=True)
    assert [(cost.requests, cost.price) for cost in left.costs] == [(0, 0)] * 3
    assert [cost.done for cost in left.costs[:2]] == [16, 16]
    assert left.costs[2].done >= spent["shortcut"].requests  # equal prompts are asked once
    # A second call asks nobody, and still knows.
    assert make(captioned, item_server, tmp_path / "a", generator=generator).spent == made.spent


def test_real_articles_become_a_published_dataset(
    shared_data: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    articles = shared_data / "pmc_articles"
    if not articles.is_dir():
        pytest.skip(f"no articles at {articles}")
    first = make(articles, item_server, tmp_path / "a", limit=12, shortcut=None)
    assert 2 < len(first.items) <= 12
    assert set(first.items["licence"]) <= {"CC BY 4.0", "CC BY", "CC0", "CC BY 3.0"}
    # A benchmark that shows one of these figures, smaller and as JPEG.
    known = json.loads(first.items["provenance"][1])["figure"]
    (figure,) = [row for row in first.figures.to_dicts() if row["id"] == known]
    with Image.open(first.run.path / figure["images"][0]["path"]) as image:
        image.convert("RGB").resize((image.width * 3 // 5, image.height * 3 // 5)).save(
            tmp_path / "copy.jpg", quality=80
        )
    row = {"id": "b", "image": "copy.jpg", "question": "What is shown here?", "answer": "cells"}
    (tmp_path / "bench.jsonl").write_text(json.dumps(row) + "\n")
    against = (str(tmp_path / "bench.jsonl"),)
    values: dict[str, Any] = {"limit": 12, "shortcut": None, "stages": (), "against": against}
    before = tables(first)
    made = make(articles, item_server, tmp_path / "a", **values)
    removed = made.frame("decontaminate").filter(pl.col("removed"))
    assert known in removed["id"].to_list() and len(removed) <= 2
    assert len(made.items) == len(before["items"]) - len(removed)
    same = ("ingest", "select", "generate", "verify", "balance")
    assert [tables(made)[stage] for stage in same] == [before[stage] for stage in same]


# Imports once and makes every run in a child of its own, by fork: a kill costs no new interpreter.
LAUNCHER = """
import importlib, json, os, signal, sys
from heldout.synth import synth
from heldout.synth.pipeline import stage_works
stage_works()
for line in sys.stdin:
    out, values, place = json.loads(line)
    child = os.fork()
    if not child:
        try:
            if place:  # where it kills itself
                die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
                setattr(importlib.import_module(f"heldout.synth.{place[0]}"), place[1], die)
            synth(out=out, quiet=True, **values)
            os._exit(0)
        finally:
            os._exit(1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Launcher:
    """``start`` a run in a process of its own, ``kill`` it or let it end; ``ended`` is its exit code."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._told: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(line)

    def start(self, out: Path, values: dict[str, Any], place: tuple[str, str] | None = None) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(out), values, place]) + "\n")
        self._process.stdin.flush()
        return int(self._told.get(timeout=60))

    def ended(self, seconds: float) -> int | None:
        with contextlib.suppress(queue.Empty):
            return int(self._told.get(timeout=seconds))
        return None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    yield made
    made.close()


def test_a_killed_run_goes_on_and_asks_nothing_twice(
    captioned: Path, item_server: ItemServer, tmp_path: Path, launcher: Launcher
) -> None:
    """SIGKILL at points spread over the asking, until it is through."""
    values: dict[str, Any] = {
        "source": str(captioned),
        "limit": 8,
        "generator": {"url": item_server.url("slow-60", "writer"), "concurrency": 2},
        "verifier": {"url": item_server.url("slow-60", "referee"), "concurrency": 2},
        "labels": ["all"],
        "stages": [str(stage) for stage in MADE],
    }
    draw, kills, code = random.Random(0), 0, None
    for _ in range(40):
        wanted = item_server.counts()["answered"] + draw.randint(2, 5)
        child = launcher.start(tmp_path / "killed", values)
        while (code := launcher.ended(0.005)) is None:
            if item_server.counts()["answered"] >= wanted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                code = launcher.ended(60)
                break
        kills += code == -signal.SIGKILL
        if code == 0:
            break
    assert code == 0
    assert kills >= 3
    counts = item_server.counts()
    # What was on its way when the process died was not received: at most as many as are asked at a time.
    assert counts["answered"] <= 16 + 2 * kills
    journals = sorted((tmp_path / "killed" / "synth" / "replies").glob("*.jsonl"))
    keys = [_key(line) for path in journals for line in path.read_bytes().splitlines()]
    assert max(Counter(key for key in keys if key).values()) == 1
    whole = make(captioned, item_server, tmp_path / "whole", shortcut=None, limit=8)
    killed = synth(out=tmp_path / "killed", quiet=True, **values)
    assert tables(killed) == tables(whole)


# Where a stage is killed: after it has written much, before its table is there.
DEATHS = {
    "select": ("_select", "draw"),
    "generate": ("_from_scenes", "scene_draft"),
    "verify": ("_from_scenes", "verdict_row"),
    "shortcut": ("shortcut", "answer_is_overlong"),
    "balance": ("_balance", "mixed"),
    "decontaminate": ("decontaminate", "contamination_report"),
    "publish": ("publish", "_write_filter_log"),
}


def test_a_stage_that_is_killed_in_its_midst_leaves_nothing_half_done(
    tmp_path: Path, launcher: Launcher
) -> None:
    """The same bytes in the end, whatever was killed on the way, and in every table."""
    write_benchmark(tmp_path / "bench", images=2, seed=5)
    values: dict[str, Any] = {
        "source": "scenes",
        "limit": 5,
        "against": [str(tmp_path / "bench/test.jsonl")],
        "image_encoder": None,
        "workers": 1,
    }
    for stage, place in DEATHS.items():
        launcher.start(tmp_path / "killed", values, place)
        assert launcher.ended(120) == -signal.SIGKILL, stage
        assert not (tmp_path / "killed" / "synth" / f"{stage}.parquet").exists()
    killed = synth(out=tmp_path / "killed", quiet=True, **values)
    whole = synth(out=tmp_path / "whole", quiet=True, **values)
    for part in ("dataset", "."):
        names = _files(killed.run.path / "synth" / part)
        assert names and names == _files(whole.run.path / "synth" / part)
        for name in names:
            if part == "dataset" or name not in ("ingest.parquet", "select.parquet"):
                one, other = (made.run.path / "synth" / part / name for made in (killed, whole))
                assert _content(one) == _content(other), name
    assert tables(killed)["dropped"] == tables(whole)["dropped"]


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def _content(path: Path) -> Any:
    """Bytes; of a stage's table its rows, because its key names the run's own folder."""
    return pq.read_table(path).to_pylist() if path.suffix == ".parquet" else path.read_bytes()


def _key(line: bytes) -> str:
    try:
        return str(json.loads(line)["key"])
    except ValueError:  # cut short by a kill
        return ""


def test_faults_of_a_server_lose_no_item(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    """Every figure meets a fault first: 429, 500, half an answer, empty, refused, malformed, too slow, four
    options, a word for a letter. All that can be mended is, within three attempts."""
    made = make(captioned, item_server, tmp_path / "a", "faulty")
    clean = make(captioned, item_server, tmp_path / "b")
    columns = ["id", "question", "options", "answer"]
    assert made.drafts.select(columns).equals(clean.drafts.select(columns))
    rows = pq.read_table(table_path(made.run, SynthStage.GENERATE)).to_pylist()
    assert ("repaired", "yes") in [fact for row in rows for fact in row["extra"]]  # fenced in ```
    posted = item_server.counts()["posted"]["faulty"]
    assert 16 < posted <= 3 * 16


def test_a_verifier_with_faults_loses_no_item(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    verifier = {"url": item_server.url("faulty", "referee"), "timeout": 1.0}
    made = make(captioned, item_server, tmp_path / "a", verifier=verifier)
    clean = make(captioned, item_server, tmp_path / "b")
    assert made.verdicts.equals(clean.verdicts)


def test_what_is_never_readable_is_dropped_with_its_reason_after_bounded_attempts(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    made = make(captioned, item_server, tmp_path / "a", "stubborn", attempts=2)
    lost = made.dropped.filter(pl.col("stage") == "generate")
    assert 0 < len(lost) < 16
    assert set(lost["reason"]) == {"malformed JSON"}
    assert len(made.drafts) + len(lost) == 16
    assert item_server.counts()["posted"]["stubborn"] == 16 + len(lost)
    assert item_server.counts()["most"] == 1


def test_more_images_than_a_server_takes_cost_their_items_alone(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    table = captioned / "captions.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()][:6]
    for row in rows[:2]:
        row["images"] = [row.pop("image"), "7.png"]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = make(captioned, item_server, tmp_path / "a", "one-eyed", stages=tuple(MADE[:3]))
    lost = made.dropped.filter(pl.col("stage") == "generate")
    assert len(made.drafts) == 4 and len(lost) == 2
    assert all("At most 1 image(s)" in detail for detail in lost["detail"])
    # As it is sent, without each of the two optional fields, and without both.
    assert item_server.counts()["posted"]["one-eyed"] <= 4 + 2 * 4


def test_items_that_a_server_failed_on_are_asked_for_by_the_next_call(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    generator = {"url": item_server.url("failing-18", "writer"), "concurrency": 1}
    made = make(captioned, item_server, tmp_path / "a", generator=generator, shortcut=None)
    lost = made.dropped.filter(pl.col("reason") == "the endpoint failed")
    assert len(lost) > 0
    assert len(made.drafts) == 16 - len(lost)
    again = make(captioned, item_server, tmp_path / "a", generator=generator, shortcut=None)
    assert len(again.drafts) == 16
    assert item_server.counts()["most"] == 1
    assert tables(again) == tables(make(captioned, item_server, tmp_path / "b", shortcut=None))


@pytest.mark.parametrize("how", ["failing-99999", "resetting", "busy"])
def test_prompts_that_always_fail_cost_their_items_alone(
    captioned: Path, item_server: ItemServer, tmp_path: Path, how: str
) -> None:
    """Also where nothing else is left to ask: the second call only has prompts that fail."""
    values: dict[str, Any] = {"shortcut": None, "stages": tuple(MADE[:4])}
    made = make(captioned, item_server, tmp_path / "a", how, **values)
    lost = made.dropped.filter(pl.col("reason") == "the endpoint failed")
    assert len(lost) == made.undecided == 6
    assert len(made.drafts) == len(made.verdicts) == 10
    posted = item_server.counts()["posted"][how]
    again = make(captioned, item_server, tmp_path / "a", how, **values)
    assert tables(again) == tables(made)
    # Three attempts at each, and a few requests that ask whether the server is alive.
    assert 6 * 3 < item_server.counts()["posted"][how] - posted <= 6 * 3 + 6


def test_a_server_that_never_answers_ends_the_stage_with_its_reason(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    """Also where so few items are left that nothing fails five times in a row."""
    with pytest.raises(InputError, match=r"generator .*none of 2\b.*JSON"):
        make(captioned, item_server, tmp_path / "a", "html", limit=2)
    made = make(captioned, item_server, tmp_path / "a", limit=2, shortcut=None)
    assert len(made.drafts) == 2


def test_a_server_that_dies_ends_the_stage_and_keeps_what_it_answered(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="same command"):
        make(captioned, item_server, tmp_path / "a", "mortal-7")
    answered = item_server.counts()["answered"]
    assert 0 < answered <= 7
    assert not (tmp_path / "a" / "synth" / "generate.parquet").exists()
    planned = make(captioned, item_server, tmp_path / "a", plan=True).costs
    assert (planned[0].done, planned[0].requests) == (answered, 16 - answered)
    alive = make(captioned, item_server, tmp_path / "a")  # another address, the same model
    assert item_server.counts()["most"] == 1
    assert len(alive.drafts) == 16


def test_a_model_that_changes_half_way_is_recorded_per_item(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"shortcut": None, "stages": tuple(MADE[:4])}
    made = make(captioned, item_server, tmp_path / "a", "changing-9", **values)
    models = made.models
    columns = ["stage", "role", "model", "fingerprint", "replies"]
    assert models.select(columns).rows() == [
        ("generate", "generator", "writer", "fp-1", 9),
        ("generate", "generator", "writer-2", "fp-2", 7),
        ("verify", "verifier", "referee", "fp-1", 16),
    ]
    assert "" < models["first"][0] <= models["last"][0] <= models["last"][1]
    generated = dict(models.filter(role="generator").select("digest", "replies").rows())
    assert Counter(made.drafts["generator"]) == generated
    # A second call asks nobody, and the table is still there.
    assert make(captioned, item_server, tmp_path / "a", "changing-9", **values).models.equals(
        models
    )
    # The model that took over must not verify its own items, under whichever name it was asked for.
    verifier = {"url": item_server.url("plain", "writer-2")}
    with pytest.raises(InputError, match="writer-2"):
        make(captioned, item_server, tmp_path / "a", "changing-9", **values, verifier=verifier)
    verifier = {"url": item_server.url("changing-4", "referee")}
    generator = {"url": item_server.url("plain", "referee-2")}
    with pytest.raises(InputError, match="same model, referee-2"):
        make(
            captioned, item_server, tmp_path / "b", **values, generator=generator, verifier=verifier
        )


def test_a_run_that_goes_on_with_another_model_mixes_no_replies(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    with pytest.raises(InputError):
        make(captioned, item_server, tmp_path / "a", "mortal-7")
    generator = {"url": item_server.url("plain", "successor")}
    made = make(captioned, item_server, tmp_path / "a", generator=generator)
    assert len(set(made.drafts["generator"])) == 1
    assert made.models.filter(role="generator").select("model", "replies").rows() == [
        ("successor", 16)
    ]


def test_a_model_does_not_verify_itself_unless_that_is_asked_for(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    """Two addresses of one model are one model."""
    verifier = {"url": item_server.url("slow-1", "writer")}
    with pytest.raises(InputError, match="same model"):
        make(captioned, item_server, tmp_path / "a", verifier=verifier)
    made = make(captioned, item_server, tmp_path / "a", verifier=verifier, same_model=True)
    facts = read_facts(made.run)
    assert facts.verified_itself == "all"
    (line,) = (model for model in facts.models if model.role == "verifier")
    other = dataclasses.replace(line, model="another")
    assert dataclasses.replace(facts, models=[*facts.models, other]).verified_itself == "some"
    rest = [model for model in facts.models if model is not line]
    assert not dataclasses.replace(facts, models=[*rest, other]).verified_itself


@pytest.mark.parametrize(
    ("how", "refused", "taken"),
    [
        ("plain", set(), {"response_format", "seed"}),
        ("free", {"response_format"}, {"seed"}),
        ("seedless", {"seed"}, {"response_format"}),
    ],
)
def test_a_schema_and_a_seed_are_sent_until_the_server_refuses_them(
    captioned: Path,
    item_server: ItemServer,
    tmp_path: Path,
    how: str,
    refused: set[str],
    taken: set[str],
) -> None:
    made = make(captioned, item_server, tmp_path / "a", how, stages=tuple(MADE[:3]))
    decoding = manifest(made)["generator"]["decoding"]
    assert {name for name, told in decoding.items() if told.startswith("refused: ")} == refused
    assert {name for name, told in decoding.items() if told == "sent"} == taken
    counts = item_server.counts()
    body = counts["bodies"][-1]
    assert body["temperature"] == 0
    assert body["top_p"] == 1
    assert ("response_format" in body, body.get("seed")) == (
        "response_format" in taken,
        42 if "seed" in taken else None,
    )
    # Only the requests that were under way when the first refusal came were sent twice or more.
    assert counts["posted"][how] <= 16 + (3 * 16 if refused else 0)
    assert counts["answered"] == 16
    plain = make(captioned, item_server, tmp_path / "b", stages=tuple(MADE[:3]))
    assert made.drafts.equals(plain.drafts)


def test_an_image_that_cannot_be_read_any_more_costs_its_item_alone(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    made = make(captioned, item_server, tmp_path / "a", stages=tuple(MADE[:2]))
    images = [figure["images"][0]["path"] for figure in made.figures.to_dicts()]
    (tmp_path / "a" / images[3]).write_bytes(b"no image")
    (tmp_path / "a" / images[5]).unlink()
    made = make(captioned, item_server, tmp_path / "a", stages=tuple(MADE[:3]))
    lost = made.dropped.filter(pl.col("stage") == "generate")
    assert list(lost["id"]) == [made.figures["id"][3], made.figures["id"][5]]
    assert len(made.drafts) == 14
    # An image that goes between generating and verifying makes its item ungradable.
    (tmp_path / "a" / images[0]).unlink()
    data_url.cache_clear()
    changed = make(captioned, item_server, tmp_path / "a", stages=tuple(MADE[:4]))
    verdict = changed.verdicts.to_dicts()[0]
    assert (verdict["accepted"], verdict["rubric"]) == (False, [])
    assert verdict["reason"].startswith("ungradable: ")


@pytest.mark.ray
def test_the_same_tables_on_ray(
    captioned: Path, item_server: ItemServer, tmp_path: Path, ray_connection: RayCluster
) -> None:
    rows = [
        {"id": n, "image": str(captioned / f"{n}.png"), "question": "What is it?", "answer": "a"}
        for n in (2, 4)
    ]
    bench = tmp_path / "bench.jsonl"
    bench.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values: dict[str, Any] = {
        "stages": tuple(SynthStage),
        "against": (str(bench),),
        "shortcut": None,
        "limit": 6,
        "image_encoder": None,
    }
    here = make(captioned, item_server, tmp_path / "a", **values)
    engine = f"ray:{ray_connection.address}"
    there = make(captioned, item_server, tmp_path / "b", **values, engine=engine, workers=1)
    assert tables(here) == tables(there)


def test_a_prompt_that_comes_again_in_another_batch_is_paid_for_once(
    item_server: ItemServer, tmp_path: Path
) -> None:
    run = Run.create(tmp_path / "run", seed=1)
    endpoint = ModelEndpoint(url=item_server.url("plain"))
    with open_engine("local", workers=1) as engine:
        context = StageContext(run, SynthSettings(source="x"), engine, quiet=True)
        with StageModel(context, "generator", endpoint, "generate", {}) as model:
            for _ in range(2):
                model.ask({"a": Prompt(Request("a", (Text("the same words"),)))}, "asking")
    spent = run.manifest()["synth"]["generator"]
    assert spent["spent"]["requests"] == spent["answered_by"][0]["replies"] == 1


@pytest.mark.parametrize("how", ["failing-99999", "hanging"])
def test_whoever_leaves_does_not_wait_for_further_attempts(
    item_server: ItemServer, how: str
) -> None:
    settings = ModelEndpoint(url=item_server.url(how), concurrency=2)
    endpoint = open_endpoint(settings, seed=1)
    patient = dataclasses.replace(endpoint.connection, backoff=Backoff(first_seconds=60))
    endpoint = dataclasses.replace(endpoint, connection=patient)
    captions = [f"[[BEGIN CAPTION a]]\n{n}\n[[END CAPTION a]]" for n in (3, 0, 5, 6)]  # 0 fails
    prompts = [Prompt(Request(text, (Text(text),))) for text in captions]
    began = time.monotonic()
    answers = endpoint.ask(prompts, lambda reply: None)
    assert isinstance(next(answers), Reply)
    time.sleep(0.3)  # the one that fails or hangs is under way
    answers.close()
    assert time.monotonic() - began < 20  # another attempt, or the answer, comes later than that


def test_a_token_budget_counts_what_the_server_counted(item_server: ItemServer) -> None:
    """Expected are 515 tokens a request, told are 280: two fit into a minute of 800, then one waits."""
    settings = ModelEndpoint(url=item_server.url("plain"), tokens_per_minute=800, concurrency=1)
    endpoint = open_endpoint(settings, seed=1)
    now = [0.0]
    endpoint.tokens.clock = lambda: now[0]
    endpoint.tokens.sleep = lambda seconds: now.__setitem__(0, now[0] + seconds)
    prompts = [Prompt(Request(f"{n}", (Text(f"number {n}"),))) for n in range(4)]
    replies = list(endpoint.ask(prompts, lambda reply: None))
    assert [type(reply) for reply in replies] == [Reply] * 4
    assert now[0] == pytest.approx(60, abs=2)
