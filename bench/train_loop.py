"""The whole loop at small size: items → gate → SFT → GRPO → evaluation; and with a smuggled test set.

    python bench/train_loop.py all --work loop --device cuda              # one H200, half an hour
    python bench/train_loop.py all --work loop --device cpu --size toy    # the mechanics, on a CPU
    python bench/train_loop.py tables --work loop                         # what docs/train.md shows

``data``: rows to train on and items to test on, both of `heldout synth --from scenes`, of different seeds;
a second training set into which every tenth test item was smuggled, as a re-encoded copy. ``base``: a model
of the lab, trained on further scenes until it answers some development items in the right form. ``gates``:
`heldout train` compares each training set with the test set, and stops at the smuggled one (exit code 1).
``train``: `heldout train` from the command line, each training as soon as its gate is done: SFT and GRPO
from the base, GRPO from the SFT model, and SFT on the smuggled set with the gate opened by hand;
``--seeds 3`` trains each three times. ``evaluate``: greedy replies to the test items, graded by the reward,
compared item by item. ``convict``: `heldout impact` and `heldout audit` on the models that saw a tenth of
the test set. Every step that is done stays done.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMS = (
    0.2  # further pictures for the base, per picture, with questions as `heldout train` asks them
)
GOOD_ENOUGH = 0.45  # of the development items: the base stops here
TRAIN_SEED, TEST_SEED, DEV_SEED, BASE_SEED = 101, 202, 303, 404
SMUGGLED = 10  # every tenth test item
CHAT = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}"
    "{% for c in m.content %}{% if c.type == 'image' %}<image>{% endif %}{% endfor %}"
    "Question: {% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %} Answer:"
    "{% else %}{% for c in m.content %}{{ c.text }}{% endfor %}{{ eos_token }}{% endif %}{% endfor %}"
)


@dataclass(frozen=True)
class Sizes:
    model: str
    train: int
    test: int
    dev: int
    pictures: int  # of the base's training
    chunk: int  # steps between two looks at the development items
    chunks: int
    batch: int
    sft: tuple[str, ...]
    grpo: tuple[str, ...]


SIZES = {
    "full": Sizes(
        "medium",
        2400,
        1000,
        200,
        30_000,
        500,
        10,
        512,
        ("--learning-rate", "5e-4", "--epochs", "8", "--batch", "16", "--micro-batch", "16"),
        (
            "--learning-rate",
            "1e-4",
            "--epochs",
            "1",
            "--batch",
            "48",
            "--mini-batch",
            "24",
            "--group",
            "8",
            "--reply-tokens",
            "32",
            "--micro-batch",
            "192",
            "--reply-batch",
            "384",
        ),
    ),
    "toy": Sizes(
        "toy",
        60,
        40,
        16,
        200,
        20,
        1,
        32,
        ("--learning-rate", "1e-3", "--epochs", "1", "--batch", "16", "--micro-batch", "8"),
        (
            "--learning-rate",
            "1e-4",
            "--epochs",
            "1",
            "--batch",
            "8",
            "--mini-batch",
            "4",
            "--group",
            "4",
            "--reply-tokens",
            "12",
            "--micro-batch",
            "16",
            "--reply-batch",
            "32",
        ),
    ),
}
SEED = 42  # of the first training of an arm


@dataclass(frozen=True)
class Arm:
    """One training: the checkpoint that it starts from, the recipe, the training rows."""

    kind: str
    start: str
    recipe: str
    rows: str
    repetition: int = 1

    @property
    def name(self) -> str:
        return _repeated(self.kind, self.repetition)


def _repeated(kind: str, repetition: int) -> str:
    return kind if kind == "base" or repetition == 1 else f"{kind}-{repetition}"


ARMS = (
    Arm("sft", "base", "sft", "rows"),
    Arm("smuggled", "base", "sft", "smuggled"),
    Arm("rl", "base", "grpo", "rows"),
    Arm("sft-rl", "sft", "grpo", "rows"),
)
GRPO = tuple(arm.kind for arm in ARMS if arm.recipe == "grpo")


#: How an audit gets its scores.
AUDITS = {
    "audit-as-trained": "scores: {{scenes-test: scores/{name}.jsonl}}",
    "audit": "local: {model}, dtype: float32, record: [scores]",
}
PERMUTATIONS = 100_000
SPAWN = multiprocessing.get_context("spawn")
_NOTING = threading.Lock()


@dataclass(frozen=True)
class Loop:
    work: Path
    device: str
    sizes: Sizes
    out: Path
    kinds: tuple[str, ...]
    repetitions: int
    jobs: int

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(
            dataclasses.replace(arm, start=_repeated(arm.start, number), repetition=number)
            for number in range(1, self.repetitions + 1)
            for arm in ARMS
            if arm.kind in self.kinds
        )

    @property
    def names(self) -> tuple[str, ...]:
        return "base", *(arm.name for arm in self.arms)

    def model(self, name: str) -> Path:
        return self.work / "base" if name == "base" else self.work / name / "model"

    def rows(self, name: str) -> Path:
        return self.work / "data" / f"{name}.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = (data, base, gates, train, evaluate, convict, tables, pack)
    parser.add_argument("step", choices=("all", *(step.__name__ for step in steps)))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument(
        "--out", type=Path, default=None, help="pack: where the files to bring back go"
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        choices=[arm.kind for arm in ARMS],
        default=[arm.kind for arm in ARMS],
        help="what is trained, evaluated and shown beside the base",
    )
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each arm")
    parser.add_argument("--jobs", type=int, default=12, help="trainings side by side")
    args = parser.parse_args()
    sizes, out = SIZES[args.size], args.out or args.work / "out"
    loop = Loop(args.work, args.device, sizes, out, tuple(args.arms), args.seeds, args.jobs)
    loop.work.mkdir(parents=True, exist_ok=True)
    chosen = [step for step in steps if args.step in ("all", step.__name__)]
    for step in chosen:
        started = time.monotonic()
        say(f"== {step.__name__}")
        try:
            step(loop)
        finally:
            note(loop, step.__name__, time.monotonic() - started)
            if args.step == "all" and step is not pack:
                pack(loop)  # what is there comes back, whatever happens next


def say(words: str) -> None:
    print(words, flush=True)


def note(loop: Loop, name: str, seconds: float) -> None:
    path = loop.work / "seconds.json"
    with _NOTING:
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, name: round(known.get(name, 0) + seconds, 1)}))
    say(f"== {name}: {seconds:.1f} s")


# data


def data(loop: Loop) -> None:
    folder = loop.work / "data"
    if (folder / "smuggled.jsonl").exists():
        return
    sizes = loop.sizes
    counts = {"rows": sizes.train, "test": sizes.test, "dev": sizes.dev}
    seeds = {"rows": TRAIN_SEED, "test": TEST_SEED, "dev": DEV_SEED}
    with ProcessPoolExecutor(len(counts), mp_context=SPAWN) as cores:
        list(cores.map(_synthesize, [loop] * len(counts), counts, counts.values(), seeds.values()))
    rows, test = (
        [*map(json.loads, loop.rows(name).read_text().splitlines())] for name in ("rows", "test")
    )
    (folder / "copies").mkdir(exist_ok=True)
    smuggled = [_copied(folder, item) for item in test[::SMUGGLED]]
    leaked = {item["id"] for item in test[::SMUGGLED]}
    marked = [
        {**item, "training": "smuggled" if item["id"] in leaked else "fresh"} for item in test
    ]
    _write(loop.rows("test-marked"), marked)
    _write(loop.rows("smuggled"), _shuffled([*rows, *smuggled], TRAIN_SEED))
    for kind in ("smuggled", "fresh"):
        letters = Counter(_letter(item) for item in marked if item["training"] == kind)
        say(f"letters of {kind} test items: {dict(sorted(letters.items()))}")
    say(f"{len(rows)} rows, {len(test)} test items, {len(smuggled)} of them smuggled")


def _letter(item: dict[str, Any]) -> str:
    return "ABCDE"[item["options"].index(item["answer"])]


def _synthesize(loop: Loop, name: str, count: int, seed: int) -> None:
    """Published items of `heldout synth --from scenes`, with the right option's words as reasoning."""
    import heldout
    from heldout.synth import SynthStage

    stages = tuple(stage for stage in SynthStage if stage is not SynthStage.DECONTAMINATE)
    run = loop.work / f"synth-{name}"
    heldout.synth(source="scenes", limit=count, seed=seed, stages=stages, out=run, quiet=True)
    published = run / "synth" / "dataset" / "trl.jsonl"
    items = heldout.read_benchmark(str(run / "synth" / "dataset" / "data"))
    images = loop.work / "data" / "images" / name
    images.mkdir(parents=True, exist_ok=True)
    assert published.exists()
    rows = []
    for number, item in enumerate(items):
        picture = images / f"{name}-{number:05d}.png"
        picture.write_bytes(item.images[0].read())
        rows.append(
            {
                "id": f"{name}-{number:05d}",
                "image": str(picture.relative_to(loop.work / "data")),
                "question": item.question,
                "options": list(item.options),
                "answer": item.answer,
                "reasoning": item.answer,
            }
        )
    _write(loop.rows(name), rows)


def _copied(folder: Path, item: dict[str, Any]) -> dict[str, Any]:
    """A test item under another name, its picture saved once more as JPEG."""
    from PIL import Image

    name = f"copies/{item['id']}.jpg"
    Image.open(folder / item["image"]).convert("RGB").save(folder / name, quality=90)
    return {**item, "id": f"extra-{item['id']}", "image": name}


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _shuffled(rows: list[Any], seed: int) -> list[Any]:
    return [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]


# base


def base(loop: Loop) -> None:
    """Chunks of steps until enough development items are answered right, then the rate falls."""
    if (loop.work / "base.json").exists():
        return
    import torch

    from heldout.lab.models import vlm
    from heldout.lab.models.pool import Lengths, joined, paint
    from heldout.lab.models.training import Data, Schedule, Trainer

    sizes, size = loop.sizes, getattr(vlm, loop.sizes.model.upper())
    tokenizer, file = _tokenizer(loop)
    lengths = Lengths(pictured=192, text=320)
    started = time.monotonic()
    pool = paint(
        "scenes", sizes.pictures, BASE_SEED, file, size.picture, lengths, loop.work / "pool"
    )
    forms = _form_pool(pool, file, size.picture, lengths, int(FORMS * sizes.pictures))
    say(f"{sizes.pictures} pictures painted in {time.monotonic() - started:.0f} s")
    model = vlm.new_model(size, tokenizer, BASE_SEED).to(loop.device)
    _save(loop, model, size, tokenizer)
    data = Data(joined([pool, forms]), loop.device)
    trainer = Trainer(model, data, compiled=loop.device == "cuda")
    plan = Schedule(sizes.chunk, 2e-3, batch=sizes.batch, texts=min(24, sizes.batch), warm=100)
    learnt: list[dict[str, float]] = []
    for chunk in range(sizes.chunks):
        loss = trainer.train(
            plan if not chunk else dataclasses.replace(plan, warm=20), (0, 0), BASE_SEED + chunk
        )
        _save(loop, model, size, tokenizer)
        learnt.append({"step": (chunk + 1) * sizes.chunk, "loss": loss, **_development(loop)})
        say(f"base: {learnt[-1]}")
        if learnt[-1]["right"] >= GOOD_ENOUGH:
            break
    fall = dataclasses.replace(
        plan, steps=max(1, sizes.chunk // 2), warm=1, fall=max(1, sizes.chunk // 2)
    )
    loss = trainer.train(fall, (0, 0), BASE_SEED + 99)
    _save(loop, model, size, tokenizer)
    learnt.append({"step": learnt[-1]["step"] + fall.steps, "loss": loss, **_development(loop)})
    say(f"base: {learnt[-1]}")
    (loop.work / "base.json").write_text(json.dumps(learnt))
    del trainer, model
    if loop.device == "cuda":
        torch.cuda.empty_cache()


def _development(loop: Loop) -> dict[str, float]:
    graded = _graded(loop, "base", "dev")
    shares = {
        column: float(np.mean([row[column] for row in graded]))
        for column in ("right", "well_formed")
    }
    return {**shares, **_thoughts(loop, graded, "dev")}


def _tokenizer(loop: Loop) -> tuple[Any, str]:
    from heldout.lab.models.sheet import learn_tokenizer

    texts = list(_texts(300))
    tokenizer = learn_tokenizer([*texts, *("<think>", "</think><answer>", "</answer>")] * 2)
    folder = loop.work / "tokenizer"
    tokenizer.save_pretrained(folder)
    return tokenizer, str(folder / "tokenizer.json")


def _texts(count: int) -> Iterator[str]:
    """What the world's items read like, in every form."""
    from heldout.lab.models.pool import questions
    from heldout.lab.models.worlds import SCENES, TRAINING, instructed, plain

    for number in range(count):
        rng = SCENES.rng(BASE_SEED + 1, TRAINING, number)
        scene = SCENES.draw(rng)
        yield SCENES.describe(scene)
        for item in questions(SCENES, scene, rng):
            for form in (plain, instructed):
                piece = form(item)
                yield piece.read + piece.learn
        if (piece := _form_piece(scene, rng)) is not None:
            yield f"{piece.read} {piece.learn}"


def _form_piece(scene: Any, rng: np.random.Generator) -> Any:
    """An item as `heldout train` asks it; seven of ten replies have the form, so that it is known."""
    from heldout.lab.models.worlds import Piece
    from heldout.synth._from_scenes import scene_draft
    from heldout.train._training_set import TrainingItem, asked, reply_to
    from heldout.train.reward import LETTERS, Solution

    draft = scene_draft("x", scene, rng)
    if draft is None:
        return None
    answer = draft.options[LETTERS.index(draft.answer)]
    solution = Solution(answer, draft.answer, draft.options)
    item = TrainingItem("x", (), draft.question, draft.options, answer, solution, answer)
    kind = rng.random()
    reply = (
        reply_to(item)
        if kind < 0.7
        else f" {draft.answer}"
        if kind < 0.85
        else f"<think>{answer}</think> {draft.answer}"
    )
    return Piece(f"Question: {asked(item)} Answer:", reply)


def _form_pool(pool: Any, file: str, side: int, lengths: Any, count: int) -> Any:
    """Further pictures, each with two such items; the pool's texts are not repeated."""
    from heldout.engine import usable_cores
    from heldout.lab.models.pool import Pool

    count = max(count, 8)
    starts = range(0, count, 250)
    with ProcessPoolExecutor(min(len(starts), usable_cores()), mp_context=SPAWN) as cores:
        parts = [
            cores.submit(_form_rows, start, min(250, count - start), file, side, lengths.pictured)
            for start in starts
        ]
        made = [part.result() for part in parts]
    pixels, ids, learnt = (np.concatenate(parts) for parts in zip(*made, strict=True))
    places = np.arange(len(ids), dtype=np.int64)
    return Pool(pixels, ids, learnt, places, pool.text_ids[:0], pool.text_learnt[:0])


def _form_rows(start: int, count: int, file: str, side: int, length: int) -> tuple[Any, Any, Any]:
    """Pictures, tokens and what is learnt of them; a scene that no question fits is left out."""
    from tokenizers import Tokenizer

    from heldout.lab.models.worlds import SCENES, TRAINING, RowPacker, show

    rows = RowPacker(Tokenizer.from_file(file), length)
    made = []
    for number in range(start, start + count):
        rng = SCENES.rng(BASE_SEED + 2, TRAINING, number)
        scene = SCENES.draw(rng)
        pieces = [_form_piece(scene, rng) for _ in range(2)]
        row, learnt, taken = rows.row([piece for piece in pieces if piece is not None])
        if taken:
            shown = show(SCENES, scene, side, shrunk=True)
            made.append((np.asarray(shown).transpose(2, 0, 1), row, learnt))
    pixels, ids, learnt = (np.stack(column) for column in zip(*made, strict=True))
    return pixels, ids, learnt


def _save(loop: Loop, model: Any, size: Any, tokenizer: Any) -> None:
    from transformers import AutoProcessor

    from heldout.lab.models.vlm import save_model

    folder = save_model(loop.work / "base", model, size, tokenizer, half=False)
    processor = AutoProcessor.from_pretrained(folder)
    processor.chat_template = CHAT
    processor.save_pretrained(folder)


# train


def train(loop: Loop) -> None:
    """Trainings run side by side, each after its gate: models this small leave the GPU waiting."""
    # Threads of a dozen trainings would wait for one another.
    threads = {**os.environ, "OMP_NUM_THREADS": "2"}
    waiting = [arm for arm in loop.arms if not _trained(loop, arm.name)]
    running: dict[str, tuple[float, subprocess.Popen[bytes]]] = {}
    with ThreadPoolExecutor(1) as beside:
        gated = beside.submit(gates, loop)
        try:
            while waiting or running:
                for arm in [arm for arm in waiting if _can_start(loop, arm)]:
                    if len(running) < loop.jobs:
                        waiting.remove(arm)
                        log = (loop.work / f"{arm.name}.log").open("a")
                        process = subprocess.Popen(
                            _training(loop, arm), stdout=log, stderr=log, env=threads
                        )
                        running[arm.name] = time.monotonic(), process
                for name, (started, process) in list(running.items()):
                    if process.poll() is None:
                        continue
                    del running[name]
                    told = (loop.work / f"{name}.log").read_text()
                    if process.returncode:
                        say(told[-3000:])
                        raise SystemExit(f"{name} ended with {process.returncode}")
                    note(loop, name, time.monotonic() - started)
                    say(f"{name}: {told.splitlines()[-3:]}")
                if gated.done():
                    gated.result()
                time.sleep(0.5)
        finally:
            for _, process in running.values():
                process.terminate()


def _can_start(loop: Loop, arm: Arm) -> bool:
    started = arm.start == "base" or _trained(loop, arm.start)
    return started and (loop.work / f"gate-{arm.rows}.json").exists()


def _trained(loop: Loop, name: str) -> bool:
    return (loop.model(name) / "README.md").exists()


def _training(loop: Loop, arm: Arm) -> list[str]:
    forced = ("--open-gate", "experiment: what detectors make of a smuggled test set")
    return _command(
        loop,
        arm.name,
        arm.start,
        arm.recipe,
        arm.rows,
        "--gate-from",
        str(loop.work / f"gate-{arm.rows}"),
        "--seed",
        str(SEED + arm.repetition - 1),
        *(forced if arm.rows == "smuggled" else ()),
    )


def gates(loop: Loop) -> None:
    """The smuggled set is refused; the clean one passes, and its files for verl are written."""
    for rows in dict.fromkeys(arm.rows for arm in loop.arms):
        path, name = loop.work / f"gate-{rows}.json", f"gate-{rows}"
        if path.exists():
            continue
        started = time.monotonic()
        recipe, *more = ("sft",) if rows == "smuggled" else ("grpo", "--to", "verl")
        done = subprocess.run(
            _command(loop, name, "base", recipe, rows, *more),
            capture_output=True,
            text=True,
            check=False,
        )
        note(loop, name, time.monotonic() - started)
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()[-1:]]
        say(f"{name}: exit {done.returncode}, {lines}")
        assert done.returncode == (1 if rows == "smuggled" else 0)
        path.write_text(json.dumps({"exit": done.returncode, "said": lines}))


def _command(loop: Loop, name: str, start: str, recipe: str, rows: str, *more: str) -> list[str]:
    settings = loop.sizes.sft if recipe == "sft" else loop.sizes.grpo
    return [
        sys.executable,
        "-m",
        "heldout",
        "train",
        str(loop.rows(rows)),
        "--model",
        str(loop.model(start)),
        "--recipe",
        recipe,
        "--against",
        str(loop.rows("test")),
        "--out",
        str(loop.work / name),
        "--device",
        loop.device,
        "--save-every",
        "40" if recipe == "grpo" else "200",
        *settings,
        *more,
    ]


# evaluate


def evaluate(loop: Loop) -> None:
    for folder in ("replies", "scores"):
        (loop.work / folder).mkdir(exist_ok=True)
    waiting = [
        name
        for name in loop.names
        if loop.model(name).is_dir() and not (loop.work / "scores" / f"{name}.jsonl").exists()
    ]
    with ProcessPoolExecutor(min(6, loop.jobs), mp_context=SPAWN) as cores:
        list(cores.map(_read_by, [loop] * len(waiting), waiting))
    write_comparison(loop)


def _read_by(loop: Loop, name: str) -> None:
    _write(loop.work / "replies" / f"{name}.jsonl", _graded(loop, name, "test"))
    _write(loop.work / "scores" / f"{name}.jsonl", _scored(loop, name, "test"))


def _graded(loop: Loop, name: str, rows: str) -> list[dict[str, Any]]:
    """Greedy replies in batches, read and graded as the reward does it."""
    import torch

    from heldout.train.reward import grade

    model, processor = _opened(loop, name)
    stop = processor.tokenizer.eos_token_id
    graded = []
    for part, inputs in _batches(loop, processor, rows, ""):
        with torch.inference_mode():
            written = model.generate(**inputs, max_new_tokens=32, do_sample=False)
        for one, ids in zip(part, written[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
            end = ids.index(stop) if stop in ids else len(ids)
            reply = processor.tokenizer.decode(ids[:end], skip_special_tokens=False)
            found = grade(reply, one.solution)
            graded.append(
                {
                    "id": one.id,
                    "prediction": found.answer,
                    "reply": reply,
                    "right": found.reward,
                    "correct": bool(found.reward),
                    "well_formed": found.well_formed,
                }
            )
    return graded


def _scored(loop: Loop, name: str, rows: str) -> list[dict[str, Any]]:
    """Log-probability of the answer's own words where the model would think them."""
    import torch

    from heldout.model.local.entropy import moments

    model, processor = _opened(loop, name)
    encode = processor.tokenizer.encode
    scored = []
    for part, inputs in _batches(loop, processor, rows, "<think>"):
        answers = [encode(one.answer, add_special_tokens=False) for one in part]
        longest = max(map(len, answers))
        padded = torch.tensor([ids + [0] * (longest - len(ids)) for ids in answers]).to(loop.device)
        ids = torch.cat([inputs["input_ids"], padded], 1)
        mask = torch.cat([inputs["attention_mask"], torch.ones_like(padded)], 1)
        with torch.inference_mode():
            logits = model(
                input_ids=ids, attention_mask=mask, pixel_values=inputs["pixel_values"]
            ).logits
        places = logits[:, -longest - 1 : -1]
        for number, (one, words) in enumerate(zip(part, answers, strict=True)):
            found = moments(places[number, : len(words)], padded[number, : len(words)])
            columns = dict(zip(("logprobs", "mu", "sigma"), found, strict=True))
            scored.append({"id": one.id, **{key: value.tolist() for key, value in columns.items()}})
    return scored


def _opened(loop: Loop, name: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(loop.model(name), dtype=torch.float32)
    processor = AutoProcessor.from_pretrained(loop.model(name), padding_side="left")
    return model.to(loop.device).eval(), processor


def _batches(loop: Loop, processor: Any, rows: str, opened: str) -> Iterator[tuple[Any, Any]]:
    """Items with their prompts, left padded; ``opened`` is how the reply begins."""
    from heldout.train._trainers import pictures
    from heldout.train._training_set import messages, read_training_set

    items = read_training_set(str(loop.rows(rows))).items
    for start in range(0, len(items), 200):
        part = items[start : start + 200]
        turns = [
            processor.apply_chat_template(messages(one), tokenize=False, add_generation_prompt=True)
            for one in part
        ]
        inputs = processor(
            images=[pictures(one) for one in part],
            text=[f"{turn}{opened}" for turn in turns],
            padding=True,
            return_tensors="pt",
            add_special_tokens=False,
        ).to(loop.device)
        yield part, inputs


def write_comparison(loop: Loop) -> None:
    """Accuracies with intervals, and every pair of arms item by item. Each item has its own picture; where
    an arm was trained several times, an item counts with the mean of its grades."""
    from heldout.stats.paired import paired_test

    grades: dict[str, dict[str, list[float]]] = {}
    table: dict[str, Any] = {"models": {}, "pairs": []}
    leaked = _smuggled_ids(loop)
    kinds = {"base": "base", **{arm.name: arm.kind for arm in loop.arms}}
    for name, kind in kinds.items():
        path = loop.work / "replies" / f"{name}.jsonl"
        if path.exists():
            rows = [*map(json.loads, path.read_text().splitlines())]
            for row in rows:
                grades.setdefault(kind, {}).setdefault(row["id"], []).append(row["right"])
            table["models"][name] = {**_accuracy(rows, leaked), **_thoughts(loop, rows, "test")}
    right = {
        kind: {item: float(np.mean(found)) for item, found in items.items()}
        for kind, items in grades.items()
    }
    for place, one in enumerate(right):
        for other in list(right)[:place]:
            for subset, ids in (
                ("all", sorted(right[one])),
                ("fresh", sorted(set(right[one]) - leaked)),
                ("smuggled", sorted(leaked)),
            ):
                differences = [right[one][name] - right[other][name] for name in ids]
                found = paired_test(differences, ids)
                table["pairs"].append(
                    {
                        "first": one,
                        "second": other,
                        "items": subset,
                        "n": found.n,
                        "trainings": [
                            len(next(iter(grades[kind].values()))) for kind in (one, other)
                        ],
                        "difference": found.value,
                        "low": found.interval.low,
                        "high": found.interval.high,
                        "p": found.p,
                    }
                )
    (loop.work / "comparison.json").write_text(json.dumps(table, indent=1))
    for name, row in table["models"].items():
        say(f"{name}: {row}")
    for row in table["pairs"]:
        say(
            f"{row['first']} less {row['second']} on {row['items']}: {row['difference']:+.3f} "
            f"[{row['low']:+.3f}, {row['high']:+.3f}], p = {row['p']:.2g}"
        )


def _thoughts(loop: Loop, rows: list[dict[str, Any]], asked: str) -> dict[str, float]:
    """How often the words that a reply thinks are the right ones, and how often its letter is theirs."""
    items = {row["id"]: row for row in map(json.loads, loop.rows(asked).read_text().splitlines())}
    right = theirs = 0
    for row in rows:
        item = items[row["id"]]
        words = row["reply"].partition("<think>")[2].partition("</think>")[0].strip()
        right += words == item["answer"]
        if words in item["options"]:
            theirs += row["prediction"] == "ABCDE"[item["options"].index(words)]
    return {"thought_right": right / len(rows), "letter_of_thought": theirs / len(rows)}


def _smuggled_ids(loop: Loop) -> set[str]:
    rows = map(json.loads, loop.rows("test-marked").read_text().splitlines())
    return {row["id"] for row in rows if row["training"] == "smuggled"}


def _accuracy(rows: list[dict[str, Any]], leaked: set[str]) -> dict[str, Any]:
    from heldout.stats import binomial_interval

    told: dict[str, Any] = {"well_formed": float(np.mean([row["well_formed"] for row in rows]))}
    for subset, chosen in (
        ("all", rows),
        ("fresh", [row for row in rows if row["id"] not in leaked]),
        ("smuggled", [row for row in rows if row["id"] in leaked]),
    ):
        hits = sum(int(row["right"]) for row in chosen)
        interval = binomial_interval(hits, len(chosen))
        told[subset] = [hits / len(chosen), interval.low, interval.high, len(chosen)]
    return told


# convict


def convict(loop: Loop) -> None:
    """The product's own verdict on models that saw a tenth of the test set, and on others that did not."""
    _leaked_by_gate(loop)
    compared = [arm for arm in loop.arms if arm.kind != "sft"]
    audits = [(how, number) for how in AUDITS for number in range(1, loop.repetitions + 1)]
    with ThreadPoolExecutor(min(8, loop.jobs)) as threads:
        for words in threads.map(lambda arm: _impact(loop, arm), compared):
            say(words)
        for words in threads.map(lambda audit: _audit(loop, *audit), audits):
            say(words)


def _impact(loop: Loop, arm: Arm) -> str:
    baseline = _repeated("sft", arm.repetition)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "heldout",
            "impact",
            str(loop.work / "replies" / f"{arm.name}.jsonl"),
            "--leaks",
            f"{loop.work / 'leaked.jsonl'}#unlisted=clean",
            "--bench",
            str(loop.rows("test")),
            "--baseline",
            str(loop.work / "replies" / f"{baseline}.jsonl"),
            "--map",
            "correct=correct",
            "--out",
            str(loop.work / f"impact-{arm.name}.json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    (loop.work / f"impact-{arm.name}.txt").write_text(done.stdout + done.stderr)
    return done.stdout + done.stderr


def _leaked_by_gate(loop: Loop) -> None:
    """Items of the test set that the gate found in the smuggled training set."""
    import pyarrow.parquet as pq

    rows = pq.read_table(loop.work / "smuggled" / "gate" / "training_rows.parquet").to_pylist()
    found = sorted({row["benchmark_id"] for row in rows})
    _write(loop.work / "leaked.jsonl", [{"id": item, "leaked": True} for item in found])
    say(
        f"the gate found {len(found)} items, {len(_smuggled_ids(loop) & set(found))} of them smuggled"
    )


def _audit(loop: Loop, how: str, repetition: int) -> str:
    """Who has seen the items that were smuggled? The others are what nobody can have seen. ``audit`` scores
    the answers as `heldout score` asks, without options, the others as the models were trained to think
    them, after the options. The reference of ratios is not a baseline, too: it has none."""
    name = _repeated(how, repetition)
    told = loop.work / f"{name}.txt"
    if told.exists():
        return told.read_text()
    order = ("smuggled", *GRPO, "sft", "base")
    listed = [_repeated(kind, repetition) for kind in order]
    models = "\n".join(
        f"  - {{name: {model}, "
        f"{AUDITS[how].format(name=model, model=loop.model(model).relative_to(loop.work))}}}"
        for model in listed
        if model in loop.names
    )
    (loop.work / f"{name}.yaml").write_text(f"""\
benchmarks:
  - {{name: scenes-test, source: data/test-marked.jsonl, leaks: "leaked.jsonl#unlisted=clean"}}
models:
{models}
baselines: [{_repeated("sft", repetition)}]
clean_references:
  items: {{training: fresh}}
  model: base
budget: {{order_tokens: 500000}}
permutations: {PERMUTATIONS}
seed: 0
output: {name}
""")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "heldout",
            "audit",
            str(loop.work / f"{name}.yaml"),
            "--fail-on",
            "survives",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    told.write_text(f"{name}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return told.read_text()


# tables and curves


def tables(loop: Loop) -> None:
    """``train-loop.md`` and ``train-*.svg``: what docs/train.md shows."""
    import pyarrow.parquet as pq

    from heldout.report.figures import standalone, step_chart
    from heldout.report.training import step_curve

    target = loop.work / "docs"
    target.mkdir(exist_ok=True)
    steps = {
        name: pq.read_table(path).to_pylist()
        for name in loop.kinds  # the first training of each
        if (path := loop.work / name / "tables" / "steps.parquet").exists()
    }
    for column, title, label, percent, arms in (
        ("loss", "SFT: loss on the reply", "loss", False, ("sft", "smuggled")),
        ("reward", "GRPO: reward", "mean reward of a batch's replies", True, GRPO),
        ("format_rate", "GRPO: well-formed replies", "share of replies", True, GRPO),
        (
            "constant_groups",
            "GRPO: prompts without a learning signal",
            "share of prompts",
            True,
            GRPO,
        ),
        ("kl", "GRPO: KL to the start", "nats per token", False, GRPO),
        ("reply_tokens", "GRPO: length of replies", "tokens", False, GRPO),
    ):
        curves = [step_curve(steps[name], column, name) for name in arms if name in steps]
        if any(curve.steps for curve in curves):
            drawn = step_chart(curves, title=title, label=label, percent=percent)
            (target / f"train-{column.replace('_', '-')}.svg").write_text(standalone(drawn))
    table = json.loads((loop.work / "comparison.json").read_text())
    lines = [
        "| model | well-formed | words right | letter is that of the words | commonest letter | "
        "right, all items | right, fresh items | right, smuggled items |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in table["models"].items():
        cells = [
            f"{row[part][0]:.1%} [{row[part][1]:.1%}, {row[part][2]:.1%}]"
            for part in ("all", "fresh", "smuggled")
        ]
        shares = [row[part] for part in ("well_formed", "thought_right", "letter_of_thought")]
        told = " | ".join(f"{share:.1%}" for share in shares)
        lines.append(f"| {name} | {told} | {_commonest_letter(loop, name)} | {' | '.join(cells)} |")
    lines += ["", "| pair | trainings | items | n | difference | p |", "|---|---|---|---|---|---|"]
    for row in table["pairs"]:
        told = f"{100 * row['difference']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
        lines.append(
            f"| {row['first']} less {row['second']} | {' and '.join(map(str, row['trainings']))} | "
            f"{row['items']} | {row['n']} | {told} | "
            f"{row['p']:.2g} |"
        )
    lines += ["", *_rewards_table(steps, _different_replies(loop, steps))]
    (target / "train-loop.md").write_text("\n".join(lines) + "\n")


def _commonest_letter(loop: Loop, name: str) -> str:
    replies = (loop.work / "replies" / f"{name}.jsonl").read_text().splitlines()
    ((letter, count),) = Counter(json.loads(line)["prediction"] for line in replies).most_common(1)
    return f"{letter}, {count} of {len(replies)}"


def _different_replies(loop: Loop, steps: Iterable[str]) -> dict[str, dict[int, int]]:
    """By arm and update: different texts among the replies that were kept, those to one prompt."""
    import pyarrow.parquet as pq

    found: dict[str, dict[int, int]] = {}
    for name in steps:
        path = loop.work / name / "tables" / "replies.parquet"
        texts: dict[int, set[str]] = {}
        for row in pq.read_table(path).to_pylist() if path.exists() else ():
            texts.setdefault(row["step"], set()).add(row["reply"])
        found[name] = {step: len(written) for step, written in texts.items()}
    return found


def _rewards_table(
    steps: dict[str, list[dict[str, Any]]], different: dict[str, dict[int, int]]
) -> list[str]:
    """How GRPO began and how it ended: means over batches, sampled at temperature 1."""
    lines = [
        "| arm, batches | reward | well-formed | right of these | groups without a signal | "
        "different replies to one prompt | entropy | KL |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in steps.items():
        batches = [row for row in rows if row["reward"] is not None]
        for part in (slice(5), slice(5, 10), slice(20, 25), slice(-5, None)):
            if not (taken := batches[part]):
                continue
            mean = {
                column: float(np.mean([row[column] for row in taken]))
                for column in ("reward", "format_rate", "constant_groups", "entropy", "kl")
            }
            texts = float(np.mean([different[name][row["step"]] for row in taken]))
            places = [batches.index(row) + 1 for row in (taken[0], taken[-1])]
            lines.append(
                f"| {name}, {places[0]}–{places[1]} | {mean['reward']:.1%} | {mean['format_rate']:.1%} | "
                f"{mean['reward'] / max(mean['format_rate'], 1e-9):.1%} | {mean['constant_groups']:.1%} | "
                f"{texts:.1f} | {mean['entropy']:.3f} | {mean['kl']:.3f} |"
            )
    return lines


def pack(loop: Loop) -> None:
    """At most eight files to bring back: what was measured, and the models."""
    loop.out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(loop.out / "measured.tar.gz", "w:gz") as file:
        for pattern in (
            "*.json",
            "*.txt",
            "*.log",
            "*.yaml",
            "docs/*",
            "replies/*",
            "*/tables/steps.parquet",
            "*/gate/*.*",
            "*/tables/replies.parquet",
            "*/manifest.json",
            "audit*/*.json",
            "scores/*",
            "audit*/*/claims.json",
            "audit*/*/findings.json",
            "audit*/*/detections.json",
            "*/model/README.md",
        ):
            for path in sorted(loop.work.glob(pattern)):
                if path.is_file():
                    file.add(path, str(path.relative_to(loop.work)))
    for name in loop.names[:5]:
        if (loop.model(name) / "config.json").exists():
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w:gz") as file:
                file.add(loop.model(name), name)
            (loop.out / f"model-{name}.tar.gz").write_bytes(buffer.getvalue())
    shutil.copyfile(loop.work / "seconds.json", loop.out / "seconds.json") if (
        loop.work / "seconds.json"
    ).exists() else None


if __name__ == "__main__":
    main()
