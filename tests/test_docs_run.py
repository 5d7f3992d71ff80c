"""Every command in a block of a page is run here on small data, runs in a test that is named, or is marked.

A mark stands on the page, where people read it: a comment that says what the command needs. Words in capitals and
names of data are replaced by small data of the same kind.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

from command_line import run_inside
from heldout.scenes import write_benchmark
from test_docs_commands import FENCE, OMITTED, PAGES, ROOT, _plain

MARK = re.compile(
    r"#.*\b(needs? (?:a|an|the|one) |takes? (?:an? )?(?:\w+ )?(?:hours?|minutes?|days?))"
)
#: commands whose path through the product another test walks, by their first words
ELSEWHERE = {
    "heldout demo": "audit/test_demo.py",
    "heldout check data/": "test_docs_commands.py",
    "heldout check 'data/": "test_docs_commands.py",
    "heldout canary test": "cure/test_canary.py",
    "heldout ask data/mmstar.tsv --recorded": "model/asking/test_recorded_answers.py",
    "heldout detect runs/": "cli/test_detect_answers.py",
    "heldout detect RUN": "cli/test_detect.py",
    "heldout lab conform": "lab/power/test_conform.py",
    "heldout evaluate SUITE": "evaluate/test_local_models.py",
    "heldout evaluate --compare": "evaluate/test_evaluate_recorded.py",
    "heldout impact --encoder": "evaluate/encoders",
    "heldout score BENCH --model onnx": "model/onnx_model",
    "heldout lab onnx": "model/onnx_model",
}
#: names on pages, and what stands for them here
SMALL = {
    "BENCH": "bench/test.jsonl",
    "bench": "bench/test.jsonl",
    "data/bench.jsonl": "bench/test.jsonl",
    "data/test.jsonl": "bench/test.jsonl",
    "slake#split=test,lang=en": "bench/test.jsonl",
    "vqa_rad#split=train": "bench/train.jsonl",
    "vqa_rad#split=test": "bench/test.jsonl",
    "vqa_rad/mevf_testset.json": "bench/test.jsonl",
    "data/vqa_rad/vqa_rad_public.json": "bench/test.jsonl",
    "data/pathvqa/pvqa_test.json": "bench/test.jsonl",
    "data/pathvqa/pvqa_train.json": "bench/train.jsonl",
    "heldout-demo/benchmark": "bench/test.jsonl",
    "machines.yaml": str(ROOT / "examples/jobs/machines.yaml"),
    "vqa_rad/images": "bench/images",
    "slake/images": "bench/images",
    "TRAIN": "bench/train.jsonl",
    "OTHER": "bench/train.jsonl",
    "data/train.jsonl": "bench/train.jsonl",
    "TRAINING_SET": "bench/train.jsonl",
    "CORPUS": "web",
    "/data/corpus": "web",
    "data/vqa_med_2019/train_images": "web",
    "vqa_med_2019/train_images": "web",
    "vqa_rad/images:in-domain": "bench/images:in-domain",
    "pmc_articles": "web",
    "pmc_articles:out-of-domain": "web:out-of-domain",
    "slake#split=train,lang=en:in-domain": "bench/train.jsonl:in-domain",
    "slake#split=train,lang=zh": "bench/train.jsonl",
    "SOURCE:in-domain|out-of-domain": "web:out-of-domain",
    "SOURCE": "web",
    "RUN": "runs/found",
    "RUNS": "runs",
    "PREDICTIONS...": "answers.jsonl",
    "PREDICTIONS": "answers.jsonl",
    "FILE": "labels.csv",
    "TABLE": "medvlsynther",
    "FORMAT": "json",
    "NAME": "name",
    "COLUMN": "content_type",
    "E": "pixels",
    "E|none": "pixels",
    "N": "3",
    "200": "2",
    "3/64": "1/1",
    "parts/*": "parts/3",
    "runs/slake": "runs/found",
    "hard=H,soft=S": "hard=.9,soft=.8",
    "proven|same-image|soft|full|down-weight": "proven",
    "accuracy|retrieval|loglik": "accuracy",
    "matches|texts|twins|items": "matches",
    "image_organ": "content_type",
}
#: options that another one excludes, or that need what a test machine may not have
LEFT_OUT = {"--ocr", "--embeddings", "--table", "--second-encoder"}
WITH_VALUE = LEFT_OUT - {"--ocr"}


class Block(NamedTuple):
    page: str
    commands: tuple[str, ...]  # those that are not marked, in their order


def _blocks(page: Path) -> Iterator[Block]:
    for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in ("", "console", "bash", "sh"):
            commands = tuple(_unmarked(text))
            if commands:
                yield Block(page.name, commands)


def _unmarked(text: str) -> Iterator[str]:
    """Commands of a block; a mark on a line of its own holds for all below it."""
    joined = re.sub(r"\\\n\s*", " ", text)
    joined = re.sub(r"\n +(?=[\[-])", " ", joined)
    for line in joined.splitlines():
        start = line.strip().removeprefix("$ ").lstrip()
        if start.startswith("#") and MARK.search(start):
            return
        if start.startswith("heldout ") and not MARK.search(start):
            yield from (
                f"heldout {part.strip()}"
                for part in re.split(r"(?:^|\s{3,})heldout ", start)
                if part
            )


BLOCKS = [block for page in PAGES for block in _blocks(page)]


def _elsewhere(command: str) -> str | None:
    return next((test for start, test in ELSEWHERE.items() if command.startswith(start)), None)


#: by page, the commands that are run here
HERE: dict[str, list[str]] = {}
for _block in BLOCKS:
    for _command in filter(lambda command: _elsewhere(command) is None, _block.commands):
        HERE.setdefault(_block.page, []).append(_command)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark, a training split, a leaky corpus, a search and recorded answers of several models."""
    root = tmp_path_factory.mktemp("docs")
    write_benchmark(root / "bench", images=4)
    rows = [json.loads(line) for line in (root / "bench/test.jsonl").read_text().splitlines()]
    write_benchmark(root / "other", images=8, seed=9)
    shutil.move(root / "other/images", root / "web")
    strangers = sorted((root / "web").iterdir())
    shutil.move(strangers[0], root / "bench/images/other.png")
    # One picture leaked as it is, with a question, and one smaller; the others stay held out.
    leaked = list(dict.fromkeys(row["image"] for row in rows))[:2]
    shutil.copy(root / "bench" / leaked[0], root / "web/copy.png")
    (root / "web/copy.txt").write_text(rows[0]["question"])
    with Image.open(root / "bench" / leaked[1]) as picture:
        picture.resize((picture.width * 3 // 4, picture.height * 3 // 4)).save(
            root / "web/less.png"
        )
    train = [{**row, "id": f"t{row['id']}"} for row in rows[:8]]
    train.append({**train[0], "id": "t", "image": "images/other.png"})
    (root / "bench/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in train))
    answers = [{"id": row["id"], "prediction": row["answer"]} for row in rows]
    (root / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    labels = "".join(f"{row['id']},{int(place % 2)}\n" for place, row in enumerate(rows))
    (root / "labels.csv").write_text(f"id,leaked\n{labels}")
    audit = (
        "benchmarks: [{name: b, source: bench/test.jsonl}]\ncorpora: [{name: web, source: web}]\n"
    )
    (root / "audit.yaml").write_text(audit)
    with contextlib.chdir(root):
        _run("overlap", "bench/test.jsonl", "--against", "web=web", "--out", "runs/found")
    return root


def _run(*words: str) -> None:
    done = run_inside(*words)
    # 1: a gate fired, which is what the command is for; 3: no browser for the PDF
    assert done.returncode in (0, 1, 3), f"{shlex.join(words)}\n{done.stderr[-600:]}"


def _small(command: str) -> list[str]:
    """The words of a command, with small data in place of names."""
    words: list[str] = []
    parts = iter(shlex.split(_plain(command))[1:])
    for word in parts:
        if OMITTED.fullmatch(word):
            continue
        if word in LEFT_OUT:
            if word in WITH_VALUE:
                next(parts)
            continue
        name, equals, value = word.partition("=")
        if equals and value in SMALL and not word.startswith("--"):
            word = f"{name.lower()}={SMALL[value]}"
        words.append(
            _OWN.get((words[0], words[-1], word), SMALL.get(word, word)) if words else word
        )
    return words


#: what stands for a name after an option of a verb: nothing is written over what the next command reads
_OWN = {
    ("audit", "--init", "DIR"): "bench",
    ("export", "--out", "FILE"): "exported.json",
    ("impact", "--out", "FILE"): "impact.json",
}


@pytest.mark.parametrize("page", sorted(HERE))
def test_commands_run(
    page: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(world, tmp_path / "here"))
    monkeypatch.chdir(folder)
    for module in ("review", "serve"):  # they would wait for people
        monkeypatch.setattr(f"heldout.cli.{module}.serve", _served)
    for command in HERE[page]:
        words = _small(command)
        shutil.rmtree("DIR", ignore_errors=True)  # each is written anew
        if words[0] == "overlap":  # of other corpora or settings: not into the run of the world
            words = [f"{word}-{page}" if word == "runs/found" else word for word in words]
            shutil.rmtree(f"runs/found-{page}", ignore_errors=True)
        _run(*words)


def _served(*desks: Any, ready: Any, **settings: Any) -> None:
    ready("http://127.0.0.1:1/")


def test_marks_and_tests_that_are_named_are_there() -> None:
    for name in ELSEWHERE.values():
        assert (Path(__file__).parent / name).exists(), name
    assert BLOCKS
    assert list(_unmarked("$ heldout demo  # needs a GPU\n$ heldout check BENCH")) == [
        "heldout check BENCH"
    ]
    assert not list(_unmarked("# needs the hub\nheldout check owner/name"))
