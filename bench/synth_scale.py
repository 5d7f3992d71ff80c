"""Speed and memory of ``heldout synth`` from verify to publish, without the time of any endpoint.

    python bench/synth_scale.py [--sizes 1000,3000,10000] [--shortcut] [--against 200]

Every size runs in a process of its own: figures and drafts are made, the replies of verifier and shortcut
model are put into the run's journals under the keys that the stages will look for, and then the stages run
against a server that refuses every request: each reply comes from the journal. Printed per size: items per
second of processor time (one core; a busy machine does not change it), and by stage the seconds and the
peak resident memory in MB so far. With ``--against`` the first run also loads a text encoder.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

from heldout.engine import open_engine
from heldout.model import Journal, ModelEndpoint, Reply, prompt_key
from heldout.store import Run
from heldout.synth import (
    LETTERS,
    Draft,
    FigureImage,
    PaperFigure,
    SynthSettings,
    SynthStage,
)
from heldout.synth._generate import VERIFY_TEMPLATE, verify_prompt
from heldout.synth.context import StageContext, StageModel
from heldout.synth.ledger import folder, read_rows, writing
from heldout.synth.pipeline import stage_works
from heldout.synth.rubric import CRITERIA, RUBRIC, Category
from heldout.synth.shortcut import TEMPLATE, shortcut_prompts

TISSUES = ("cortex", "villus", "tubule", "alveolus", "follicle", "sinusoid", "glomerulus", "septum")
SIDE = 64
STAGES = ("verify", "shortcut", "balance", "decontaminate", "publish")


class Deaf(BaseHTTPRequestHandler):
    """Names its model, and answers nothing else: whatever is not in the journal would be an error."""

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        data = json.dumps({"data": [{"id": self.path.split("/")[1]}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        self.send_response(400)
        self.send_header("Content-Length", "0")
        self.end_headers()


def figures(run: Run, count: int, start: int = 0) -> Iterator[PaperFigure]:
    target = folder(run) / "images"
    target.mkdir(parents=True, exist_ok=True)
    for number in range(start, start + count):
        data = picture(number)
        name = hashlib.sha256(data).hexdigest()
        (target / f"{name}.png").write_bytes(data)
        tissue = TISSUES[number % len(TISSUES)]
        image = FigureImage(f"{number}.png", name, SIDE, SIDE, f"synth/images/{name}.png")
        yield PaperFigure(
            f"PMC{number // 4}/fig{number}",
            f"PMC{number // 4}",
            "Figure 1",
            f"Light microscopy of the {tissue} in specimen {number}, with staining of membrane and lumen. "
            + "The sections were cut and stained as before. " * 6,
            (f"The {tissue} of specimen {number} was intact. " * 8,),
            (image,),
            "CC BY 4.0",
            "",
            True,
            "Somebody et al.",
            "bench",
            "microscopy",
            "light microscopy",
        )


def picture(number: int) -> bytes:
    small = np.random.default_rng(number).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((SIDE, SIDE)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def draft(figure: PaperFigure) -> Draft:
    draw = np.random.default_rng(int(hashlib.sha256(figure.id.encode()).hexdigest()[:8], 16))
    options = tuple(f"{TISSUES[place]} margin" for place in draw.permutation(len(TISSUES))[:5])
    answer = LETTERS[int(draw.integers(5))]
    words = figure.caption.split()[4]
    question = f"Which structure borders the {words} of preparation {draw.integers(10**9)}?"
    made = Draft(figure.id, figure.id, question, options, answer, generator="bench")
    return Draft(**{**vars(made), "raw": json.dumps(made.as_mcq())})


def verdict(number: int) -> str:
    """One item in three fails an essential, another one loses a bonus."""
    value = {}
    for criterion in CRITERIA:
        met = criterion.category is not Category.PENALTY
        if (criterion.key, number % 5) in (("single-answer", 1), ("distractors", 2)):
            met = False
        value[criterion.key] = {"met": met, "note": "seen in the image and named in the text"}
    return json.dumps(value)


def prepare(context: StageContext, count: int) -> None:
    """Tables of select and generate, and journals with every reply that the later stages need."""
    run, settings = context.run, context.settings
    works = {work.stage: work for work in stage_works()}
    with writing(run, SynthStage.SELECT, works[SynthStage.SELECT].key(context)) as writer:
        for figure in figures(run, count):
            writer.keep(figure.as_row())
    with writing(run, SynthStage.GENERATE, works[SynthStage.GENERATE].key(context)) as writer:
        for row in read_rows(run, SynthStage.SELECT):
            writer.keep(draft(PaperFigure.of_row(row)).as_row())
    assert settings.verifier is not None
    depends = {"template": VERIFY_TEMPLATE, "rubric": RUBRIC}
    asker = StageModel(context, "verifier", settings.verifier, "verify", depends).asker
    with Journal(folder(run) / "replies" / "verifier.jsonl") as journal:
        drafts = map(Draft.of_row, read_rows(run, SynthStage.GENERATE))
        for number, row in enumerate(read_rows(run, SynthStage.SELECT)):
            item = next(drafts)
            prompt = verify_prompt(item, PaperFigure.of_row(row), run.path)
            key = prompt_key(asker.identity, prompt, lambda image: image.name)
            journal.keep(key, Reply(item.id, verdict(number), prompt_tokens=1500, reply_tokens=400))
    if settings.shortcut is None:
        return
    asker = StageModel(
        context, "shortcut", settings.shortcut, "shortcut", {"template": TEMPLATE}
    ).asker
    with Journal(folder(run) / "replies" / "shortcut.jsonl") as journal:
        for row in read_rows(run, SynthStage.GENERATE):
            for name, prompt in shortcut_prompts(Draft.of_row(row)).items():
                key = prompt_key(asker.identity, prompt, lambda image: image.name)
                if key not in journal:
                    letter = LETTERS[int(key[:2], 16) % 5]
                    journal.keep(key, Reply(name, letter, prompt_tokens=120, reply_tokens=1))


def benchmark(path: Path, count: int) -> str:
    """A benchmark of which a tenth are images of the run."""
    path.mkdir()
    with (path / "test.jsonl").open("w") as file:
        for number in range(count):
            shown = number * 10 if number < count // 10 else 10**6 + number
            (path / f"{number}.png").write_bytes(picture(shown))
            row = {"id": number, "image": f"{number}.png", "question": f"What is number {number}?"}
            file.write(json.dumps({**row, "answer": f"thing {number}"}) + "\n")
    return str(path)


def measure(count: int, shortcut: bool, against: int) -> dict[str, Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Deaf)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        settings = SynthSettings(
            source="bench",
            generator=ModelEndpoint(url=f"{address}/writer/v1"),
            verifier=ModelEndpoint(url=f"{address}/referee/v1"),
            shortcut=ModelEndpoint(url=f"{address}/reader/v1") if shortcut else None,
            against=(benchmark(where / "bench", against),) if against else (),
        )
        run = Run.create(where / "run", seed=42)
        with run.writing(), open_engine("local", workers=1) as engine:
            run.update("synth", {"settings": settings.model_dump(mode="json")})
            context = StageContext(run, settings, engine, True)
            with mock.patch("os.fsync"):  # the replies made here are worth nothing
                prepare(context, count)
            before, seconds = peak(), {}
            for work in stage_works():
                skipped = work.stage is SynthStage.DECONTAMINATE and not against
                if work.stage not in STAGES or skipped:
                    continue
                start = time.process_time()
                with writing(run, work.stage, work.key(context)) as writer:
                    work.work(context, writer)
                seconds[str(work.stage)] = round(time.process_time() - start, 2)
                seconds[f"{work.stage} peak"] = peak()
    server.shutdown()
    total = sum(value for key, value in seconds.items() if not key.endswith("peak"))
    return {"items": count, "per_second": round(count / total, 1), "before": before, **seconds}


def peak() -> int:
    """Highest resident memory of this process so far, in MB."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kilobytes / (1e6 if sys.platform == "darwin" else 1e3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,3000,10000")
    parser.add_argument("--shortcut", action="store_true", help="with a shortcut model's replies")
    parser.add_argument(
        "--against", type=int, default=0, help="items of a benchmark to compare with"
    )
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(measure(chosen.one, chosen.shortcut, chosen.against)))
        return
    for size in chosen.sizes.split(","):
        command = [sys.executable, __file__, "--one", size, "--against", str(chosen.against)]
        command += ["--shortcut"] if chosen.shortcut else []
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        print(", ".join(f"{name} {value}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
