"""Rewordings found and wrongly found: word problems, programs, questions, and VQA-RAD's linked ones.

    python bench/text_rewordings.py --shared ../shared/data [--only problems programs linked …]

Runs `heldout overlap` as users do. Nothing here settled the calibration but the sets marked *settling*:
word problems of even skeletons, even questions, and VQA-RAD's pictures of one half (by a hash of their names). Prints
Markdown tables for docs/text.md; intervals are Clopper–Pearson, by item.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl

import heldout
from heldout.benchmark import normal, read_benchmark
from heldout.corpus import open_corpus
from heldout.overlap import DOUBTFUL_REWORDING, PARAPHRASE, open_text_encoder
from heldout.overlap.texts._questions import other_subject
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import scan_text_shard
from heldout.scenes import write_benchmark
from heldout.stats import binomial_interval
from rewording_sets import Program, problems, programs, questions, rewritten_programs
from small_rewordings import print_prior, report_small
from text_precision import examples_of

Row = dict[str, Any]
SIBLING_SEEDS = (201, 202, 203)  # of pictures that settled nothing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--items", type=int, default=200, help="word problems of a benchmark")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--rows", default="", help="only those whose name has this in it")
    parser.add_argument("--text-fdr", type=float)
    parser.add_argument("--text-encoder")
    parser.add_argument("--text-reader")
    given = parser.parse_args()
    names = ("text_encoder", "text_reader", "text_fdr")
    chosen = {name: getattr(given, name) for name in names}
    settings = {name: value for name, value in chosen.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        for part in given.only:
            PARTS[part](Path(folder), given, settings)


def _problems(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Half of the items are reworded in the corpus, among three times as many others of the same kind."""
    print("| word problems | reworded | found | other items that count |\n|---|--:|--:|--:|")
    for parity, name in ((0, "settling"), (1, "reported")):
        if given.rows not in name:
            continue
        made = problems(parity, 4 * given.items, seed=parity + 1)
        asked, others = made[: given.items], made[given.items :]
        rows = [
            {"id": f"same|{k}", "question": problem.phrasings[1 + k % 2], "answer": problem.answer}
            for k, problem in enumerate(asked)
            if k % 4 < 2
        ]
        rows += [
            {"id": f"other|{k}", "question": problem.phrasings[k % 3], "answer": problem.answer}
            for k, problem in enumerate(others)
        ]
        items = [
            {"id": str(k), "question": problem.phrasings[0], "answer": problem.answer}
            for k, problem in enumerate(asked)
        ]
        _report(f"{name}", folder / f"problems-{parity}", items, rows, settings)


def _programs(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Functions with their docstrings, without answers, among others that solve other tasks."""
    print("\n| programs | reworded | found | other items that count |\n|---|--:|--:|--:|")
    settling, reported = (rewritten_programs(settles=settles) for settles in (True, False))
    hard = programs()
    every = settling + reported
    new = range(len(settling), len(every))
    others = [{"id": f"other|{k}", "text": task.reworded} for k, task in enumerate(hard)]

    def alike(tasks: Sequence[Program]) -> list[Row]:
        texts = [task.alike for task in tasks if task.alike]
        return others + [{"id": f"alike|{k}", "text": text} for k, text in enumerate(texts)]

    for name, tasks, there, bystanders in (
        ("rewritten, settling: all", settling, range(len(settling)), others),
        ("rewritten, settling: one in four", settling, range(0, len(settling), 4), others),
        (
            "rewritten, settling: and 12 look-alikes",
            settling,
            range(0, len(settling), 4),
            alike(settling),
        ),
        ("rewritten, all", every, range(len(every)), others),
        ("rewritten, reported", every, new, others),
        ("rewritten, reported, and 24 look-alikes", every, new, alike(reported)),
        ("look-alikes alone", every, range(0), alike(reported)),
        ("rewritten, none there", every, range(0), others),
        ("in other words: all", hard, range(len(hard)), []),
        ("in other words: none there", hard[::2], range(0), others[1::2]),
    ):
        if given.rows not in name:
            continue
        rows = [{"id": f"same|{k}", "text": tasks[k].reworded} for k in there]
        rows += bystanders
        items = [{"id": str(k), "question": task.text} for k, task in enumerate(tasks)]
        _report(name, folder / f"programs-{name.replace(' ', '-')}", items, rows, settings)


def _questions(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Questions in another register, and others from the same templates, with their answers and without."""
    print("\n| questions | reworded | found | other items that count |\n|---|--:|--:|--:|")
    for parity, name in ((0, "settling"), (1, "reported")):
        asked, beside = questions(parity), questions(1 - parity)
        items = [{"question": record.text, "answer": record.answer} for record in asked]
        items += [{"question": r.other, "answer": r.other_answer} for r in beside]
        items = [{"id": str(k), **item} for k, item in enumerate(items)]
        reworded = [
            {"id": f"same|{k}", "question": record.reworded, "answer": record.answer}
            for k, record in enumerate(asked)
        ]
        other = [
            {"id": f"other|{k}", "question": record.other, "answer": record.other_answer}
            for k, record in enumerate(asked)
        ]
        for title, rows in (
            ("all", reworded + other),
            ("one in three", reworded[::3] + other),
            ("none", other),
        ):
            bare = [{"id": row["id"], "text": row["question"]} for row in rows]
            for how, there in (("with answers", rows), ("without", bare)):
                row = f"{name}: {title}, {how}"
                if given.rows in row:
                    place = folder / f"questions-{row}".replace(" ", "-")
                    _report(row, place, items, there, settings)


_TELLING = ("Answer: {}.", "The answer is {}.", "{}.")  # behind a question of a page, in turn


def _pages(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Word problems and questions as above, each amid two or three paragraphs of prose from articles."""
    paragraphs = _paragraphs(given.shared / "pmc_articles")
    print("\n| inside pages | reworded | found | other items that count |\n|---|--:|--:|--:|")
    for parity, name in ((0, "settling"), (1, "reported")):
        made = problems(parity, 4 * given.items, seed=parity + 1)
        asked = made[: given.items]
        items = [{"question": problem.phrasings[0], "answer": problem.answer} for problem in asked]
        reworded = [
            (f"same|{k}", problem.phrasings[1 + k % 2], problem.answer)
            for k, problem in enumerate(asked)
            if k % 4 < 2
        ]
        others = [
            (f"other|{k}", problem.phrasings[k % 3], problem.answer)
            for k, problem in enumerate(made[given.items :])
        ]
        short, beside = questions(parity), questions(1 - parity)
        kinds = [{"question": record.text, "answer": record.answer} for record in short]
        kinds += [{"question": r.other, "answer": r.other_answer} for r in beside]
        same = [(f"same|{k}", r.reworded, r.answer) for k, r in enumerate(short)]
        other = [(f"other|{k}", r.other, r.other_answer) for k, r in enumerate(short)]
        for title, bench, there in (
            ("word problems, half", items, reworded + others),
            ("word problems, none", items, others),
            ("questions, all", kinds, same + other),
            ("questions, one in three", kinds, same[::3] + other),
            ("questions, none", kinds, other),
        ):
            numbered = [{"id": str(k), **item} for k, item in enumerate(bench)]
            for how in ("with answers", "without"):
                row = f"{name}: {title}, {how}"
                if given.rows not in row:
                    continue
                rows = [
                    {"id": key, "text": _page(paragraphs, place, question, answer, how)}
                    for place, (key, question, answer) in enumerate(there)
                ]
                _report(row, folder / f"pages-{row}".replace(" ", "-"), numbered, rows, settings)


def _paragraphs(articles: Path) -> list[str]:
    """Paragraphs of the articles, from 40 to 200 words."""
    found = []
    for path in sorted(articles.rglob("*.xml")):
        for element in ElementTree.parse(path).iter("p"):
            text = " ".join("".join(element.itertext()).split())
            if 40 <= len(text.split()) <= 200:
                found.append(text)
    return list(dict.fromkeys(found))


def _page(paragraphs: Sequence[str], place: int, question: str, answer: str, how: str) -> str:
    """A paragraph, the question within another one, and a third."""
    before, around, after = (paragraphs[(3 * place + turn) % len(paragraphs)] for turn in range(3))
    first, _, rest = around.partition(". ")
    told = "" if how == "without" else _TELLING[place % len(_TELLING)].format(answer)
    return f"{before}\n\n{first}. {' '.join(f'{question} {told}'.split())} {rest}\n\n{after}"


def _negatives(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Questions of other medical benchmarks: nothing there is a rewording of VQA-RAD's."""
    print("\n| VQA-RAD's test questions against | texts | items that count |\n|---|--:|--:|")
    test = read_benchmark(f"{given.shared / 'vqa_rad'}#split=test")
    items = [
        {"id": example.id, "question": example.question, "answer": example.answer}
        for example in test
    ]
    for name, path in (("PathVQA, test", "pathvqa/pvqa_test.json"), ("SLAKE, test", "")):
        source = (
            examples_of(given.shared / path)
            if path
            else list(read_benchmark(f"{given.shared / 'slake'}#split=test,lang=en"))
        )
        rows = [
            {"id": str(k), "question": example.question, "answer": example.answer}
            for k, example in enumerate(source)
        ]
        counted = _counted(folder / f"negatives-{len(rows)}", items, rows, settings)
        flagged = counted["benchmark_id"].n_unique()
        print(f"| {name} | {len(rows):,} | {_share(flagged, len(items))} |", flush=True)


def _report(
    name: str, folder: Path, items: Sequence[Row], rows: Sequence[Row], settings: Row
) -> None:
    counted = _counted(folder, items, rows, settings)
    planted = {row["id"].partition("|")[2] for row in rows if row["id"].startswith("same|")}
    planted &= {item["id"] for item in items}
    pairs = set(counted.select("benchmark_id", "corpus_id").iter_rows())
    right = {item for item, there in pairs if there == f"same|{item}" and item in planted}
    wrong = {item for item, _ in pairs} - right
    recall = _share(len(right), len(planted)) if planted else "–"
    print(
        f"| {name} | {len(planted):,} of {len(items):,} | {recall} | "
        f"{len(wrong):,}; precision {_share(len(right), len(right) + len(wrong))} |",
        flush=True,
    )


def _counted(
    folder: Path, items: Sequence[Row], rows: Sequence[Row], settings: Row
) -> pl.DataFrame:
    folder.mkdir()
    for name, records in (("bench", items), ("corpus", rows)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines)
    result = heldout.overlap(
        folder / "bench.jsonl",
        against=f"corpus={folder / 'corpus.jsonl'}",
        run=folder / "run",
        quiet=True,
        **settings,
    )
    matches = result.run.frame("text_matches")
    return matches.filter((pl.col("degree") != "none") & (pl.col("method") != "provenance"))


def _linked(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """VQA-RAD's usual split: test questions that a training question on the same picture rewords."""
    data = given.shared / "vqa_rad"
    result = heldout.overlap(
        f"{data}#split=test",
        against=f"train={data}#split=train",
        run=folder / "linked",
        exact=True,  # every test picture is a training picture, byte for byte
        quiet=True,
        **settings,
    )
    groups: dict[tuple[str, str], set[str]] = {}
    for row in json.loads((data / "vqa_rad_public.json").read_text()):
        for column in ("question", "question_rephrase", "question_frame"):
            text = normal(str(row.get(column) or ""))
            if text and text != "null":
                groups.setdefault((row["image_name"], text), set()).add(row["qid_linked_id"])
    items = {
        example.id: (Path(example.images[0].name).name, normal(example.question), example.answer)
        for example in read_benchmark(f"{data}#split=test")
    }
    train: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads((data / "mevf_trainset.json").read_text()):
        asked = normal(row["question"]), normal(str(row["answer"]))
        train.setdefault(row["image_name"], []).append(asked)

    def linked(item: str, text: str) -> bool:
        image, question, _ = items[item]
        mine, other = (groups.get((image, words), set()) for words in (question, normal(text)))
        return bool(mine & other)

    reworded = {
        item
        for item, (image, question, answer) in items.items()
        if any(
            text != question and key == normal(answer) and linked(item, text)
            for text, key in train[image]
        )
    }
    rows = result.run.frame("text_matches").filter(
        (pl.col("relation") == PARAPHRASE)
        & (pl.col("degree") != "none")
        & (pl.col("answer_relation") == "same")
        & (pl.col("evidence").str.json_path_match("$.reading.own_picture") == "true")
    )
    flagged: dict[str, bool] = {}
    sure: dict[str, bool] = {}  # the same without possible rewordings
    pairs: list[tuple[str, bool]] = []
    for item, evidence in rows.select("benchmark_id", "evidence").iter_rows():
        read = json.loads(evidence)
        right = linked(item, read["corpus_text"])
        if DOUBTFUL_REWORDING not in read["reading"]:
            sure[item] = sure.get(item, False) or right
        flagged[item] = flagged.get(item, False) or right
        pairs.append((item, right))
    print(
        "\n| VQA-RAD, own picture and answer | reworded | found, possible ones too | precision | of pairs | "
        "without possible ones | precision |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    parts = (((0,), "settling half of the pictures"), ((1,), "reported half"), ((0, 1), "all"))
    for halves, name in parts:
        here = {item for item, (image, *_) in items.items() if _half(image) in halves}
        true = {item for item, right in flagged.items() if right} & here
        share = _share(len(true & reworded), len(reworded & here))
        precision = _share(len(true), len(flagged.keys() & here))
        rights = [right for item, right in pairs if item in here]
        of_pairs = _share(sum(rights), len(rights))
        certain = {item for item, right in sure.items() if right} & here
        found = _share(len(certain & reworded), len(reworded & here))
        exact = _share(len(certain), len(sure.keys() & here))
        print(
            f"| {name} | {len(reworded & here):,} | {share} | {precision} | {of_pairs} | {found} | {exact} |"
        )
    clean = heldout.sanitize(
        f"{data}#split=test", run=result.run, out=folder / "clean", policy="full", quiet=True
    )
    left = reworded - set(clean.removed["benchmark_id"])
    print(
        f"\n`heldout sanitize --policy full`: {len(clean.removed):,} of {len(items):,} items go, "
        f"{clean.manifest['clean']['items']:,} stay on {clean.manifest['clean']['images']:,} images; "
        f"{len(left):,} of {len(reworded):,} reworded ones stay."
    )


def _shared(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """VQA-RAD's questions beside VQA-Med's copies of their pictures: few are reworded there, so people read them."""
    data = given.shared
    for split in ("test", "train"):
        result = heldout.overlap(
            f"{data / 'vqa_rad'}#split={split}",
            against=f"med={data / 'vqa_med_2019'}#split=train",
            run=folder / f"shared-{split}",
            exact=True,  # the shared pictures are equal files
            quiet=True,
            **settings,
        )
        rows = result.run.frame("text_matches").filter(
            (pl.col("relation") == PARAPHRASE)
            & (pl.col("degree") != "none")
            & (pl.col("answer_relation") == "same")
        )
        print(f"\nVQA-RAD, {split}, beside VQA-Med's copies of its pictures, with the answer:\n")
        for evidence in map(json.loads, rows["evidence"]):
            if evidence["reading"]["own_picture"]:
                texts = f"{evidence['benchmark_text']} | {evidence['corpus_text']}"
                answer = " ".join(evidence["corpus_answers"])
                print(f"- {texts} | {answer} | {evidence['reading']['similarity']:.2f}", flush=True)


def _siblings(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Rendered scenes: a corpus has one question of every picture, and the picture's others are no rewordings of
    it, whatever their answer. Every question is in one of six corpora."""
    print("\n| scenes, seed | questions in the corpora | others that count for one | of pairs |")
    print("|---|--:|--:|--:|")
    for seed in SIBLING_SEEDS:
        place = folder / f"siblings-{seed}"
        write_benchmark(place / "bench", images=40, seed=seed)
        rows = [json.loads(line) for line in (place / "bench/test.jsonl").read_text().splitlines()]
        against = []
        for turn in range(6):  # of the questions of a picture, which have no more
            path = place / f"bench/corpus-{turn}.jsonl"
            mine = [row for row in rows if row["id"].endswith(f"-{turn}")]
            lines = (
                json.dumps({name: row[name] for name in ("id", "image", "question", "answer")})
                for row in mine
            )
            path.write_text("\n".join(lines) + "\n")
            against.append(f"c{turn}={path}")
        result = heldout.overlap(
            place / "bench/test.jsonl",
            against=against,
            run=place / "run",
            exact=True,
            quiet=True,
            **settings,
        )
        counted = result.run.frame("text_matches").filter(
            (pl.col("relation") == PARAPHRASE)
            & (pl.col("degree") != "none")
            & (pl.col("answer_relation") == "same")
            & (pl.col("evidence").str.json_path_match("$.reading.own_picture") == "true")
        )
        by_picture = Counter((row["image"], row["answer"]) for row in rows)
        pairs = sum(count * (count - 1) for count in by_picture.values())
        wrong = counted.select("benchmark_id", "corpus_id").n_unique()
        print(f"| {seed} | {len(rows):,} | {wrong:,} | {_share(wrong, pairs)} |", flush=True)
        for evidence in map(json.loads, counted["evidence"]):
            print(f"<!-- {evidence['benchmark_text']} | {evidence['corpus_text']} -->")


def _refused(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Human rephrasings that the rules for colours, sides and order take for another question."""
    rows = json.loads((given.shared / "vqa_rad" / "vqa_rad_public.json").read_text())
    texts = [(row["question"], row.get("question_rephrase")) for row in rows]
    pairs = [(text, other) for text, other in texts if other and normal(str(other)) != "null"]
    refused = sum(other_subject(text, other) for text, other in pairs)
    print(f"\nVQA-RAD's rephrasings taken for another question: {_share(refused, len(pairs))}.")


def _speed(folder: Path, given: argparse.Namespace, settings: Row) -> None:
    """Texts a second of processor time, one core: reading, and comparing by words or by meaning, too."""
    source = examples_of(given.shared / "pathvqa" / "pvqa_train.json")
    path = folder / "speed.jsonl"
    rows = ({"id": k, "question": x.question, "answer": x.answer} for k, x in enumerate(source))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = read_benchmark(f"{given.shared / 'vqa_rad'}#split=test")
    print("\n| one core, processor time | texts/s |\n|---|--:|")
    for name, search in (
        ("all passes but rewordings", TextSearch()),
        ("with `wordllama` proposing rewordings", TextSearch(encoder="wordllama")),
    ):
        index, _ = build_text_index(benchmark, search)
        begun = time.process_time()
        corpus = open_corpus(path)
        for shard in corpus.shards():
            scan_text_shard(index, corpus, shard)
        print(f"| {name} | {len(source) / (time.process_time() - begun):,.0f} |", flush=True)
    encoder = open_text_encoder(settings.get("text_reader", "bge-small"))
    texts = [str(example.question) for example in source[:500]]
    begun = time.process_time()
    encoder.embed(texts)
    print(f"| `bge-small` reading | {len(texts) / (time.process_time() - begun):,.0f} |")


def _half(image: str) -> int:
    return hashlib.md5(image.encode()).digest()[-1] % 2


def _share(hits: int, of: int) -> str:
    if not of:
        return "–"
    low, high, *_ = binomial_interval(hits, of)
    return f"{hits}/{of} = {hits / of:.3f} [{low:.3f}, {high:.3f}]"


PARTS: dict[str, Callable[[Path, argparse.Namespace, Row], None]] = {
    "problems": _problems,
    "programs": _programs,
    "questions": _questions,
    "linked": _linked,
    "shared": _shared,
    "pages": _pages,
    "negatives": _negatives,
    "siblings": _siblings,
    "small": report_small,
    "prior": print_prior,
    "refused": _refused,
    "speed": _speed,
}


if __name__ == "__main__":
    main()
