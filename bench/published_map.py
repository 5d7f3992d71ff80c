"""The claims-to-evidence map of the published audit, made again from its own tables by our rules.

    python bench/published_map.py ../shared

prints every cell with the published status, ours, and why; cells on which the two disagree are marked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl

from heldout.benchmark import read_benchmark
from heldout.detect import ScoreTables, Settings
from heldout.overlap.scan import items_table
from heldout.store import make_table
from heldout.verdict import Claim
from heldout.verdict.examine import examine
from heldout.verdict.published_map import read_map

NAMES = {
    "OpenGVLab/InternVL3-8B": "InternVL3-8B",
    "Qwen/Qwen2.5-VL-7B-Instruct": "Qwen2.5-VL-7B",
    "StanfordAIMI/CheXagent-8b": "CheXagent-8b",
    "llava-hf/llava-onevision-qwen2-7b-ov-hf": "LLaVA-OneVision-7B",
}


def slake_claims(shared: Path) -> dict[tuple[str, str], Claim]:
    """Order claims on SLAKE-En from the published per-item scores, under the control of its structure."""
    published = shared / "golden/medvlm/slake_en_overlap_inflation.json"
    records = json.loads(published.read_text())["records"]
    items = pl.from_arrow(items_table(read_benchmark(f"{shared}/data/slake#split=test,lang=en")))
    rows = [
        {"benchmark_id": record["example_id"].rsplit("::", 1)[1], "model": model, "tokens": [],
         "logprobs": [], "mu": [], "sigma": [], "sum_logprob": value, "n_tokens": 1, "span_ok": True}
        for record in records for model, value in record["mean_logprob"].items()
    ]  # fmt: skip
    scores = pl.from_arrow(make_table("scores", rows))
    assert isinstance(items, pl.DataFrame)
    assert isinstance(scores, pl.DataFrame)
    tables = ScoreTables("slake_en", items, scores)
    made = examine(tables, ("order-trend",), Settings(baselines=("BLIP-2",)))
    claims = {claim.id: claim for claim in made.claims}
    return {("slake_en", full): claims[f"order/{short}"] for full, short in NAMES.items()}


def main() -> None:
    shared = Path(sys.argv[1])
    for one in read_map(shared / "golden/medvlm", slake_claims(shared)):
        mark = " " if one.agrees else "*"
        sys.stdout.write(
            f"{mark} {one.kind:9} {one.benchmark} × {one.on}: published {one.published}, ours {one.ours} "
            f"({one.rule})\n      {one.why}\n"
        )


if __name__ == "__main__":
    main()
