"""Reads public repositories as sets of benchmark, corpus and truth on which the words judge is measured.

    python bench/collected_words.py NAME FOLDER [OUT]

`collections.yaml` says for each NAME which files of which commit FOLDER must hold. The
command prints how many items, corpus rows and leaked items the set has; with OUT it writes
bench.jsonl, corpus.jsonl and truth.tsv there.

A reader knows the truth from the repository itself: ids, lines that belong together, equal texts.
About half of the items are leaked, chosen by a digest of their id, so that every run and every
machine chooses the same ones. The other rows of the corpus are of the same source, so that a judge
can be wrong. The data is for measuring and is never copied into this repository.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Row = dict[str, object]
LEAKS = {"rewording", "same", "translation"}
# Items that reading threw out: pairs of the doctors that ask different things, a change of a
# statement that says the same, questions of the quizzes that a second page asks in other words.
READ_AS_WRONG = {
    *("q180", "q282", "q878", "q986", "q1030", "q1064", "q1430", "q2940"),
    *("qtest1-413-1-1", "python-q52", "django-q53", "django-q286"),
}


@dataclass(frozen=True)
class WordSet:
    """A benchmark, a corpus and what is true of their pairs: (benchmark id, corpus id, truth).

    An item that is not in the corpus has at least one row: its siblings there, or an empty corpus id and "nothing".
    """

    benchmark: list[Row]
    corpus: list[Row]
    truth: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Asked:
    """An item with all rows that may stand in a corpus beside it; a row has its truth as "truth" until it is placed."""

    row: Row
    leaks: list[Row]
    siblings: list[Row]


def digest(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def leaks(key: str) -> bool:
    # Not the digest of the id alone: that is the half, and a half must not hold all leaks.
    return digest(f"leaked {key}") % 2 == 0


def chosen(asked: Iterable[Asked], count: int) -> list[Asked]:
    """As many items as asked for, the same ones everywhere; a question that is asked twice is one item."""
    once = {str(item.row["question"]): item for item in asked}
    return sorted(once.values(), key=lambda item: digest(str(item.row["id"])))[:count]


def placed(asked: list[Asked], others: Iterable[Row] = ()) -> WordSet:
    """The set in which the items that a digest chooses are leaked; siblings and other rows are always in the corpus."""
    corpus: dict[str, Row] = {str(row["id"]): row for row in others}
    truth = []
    for item in asked:
        key = str(item.row["id"])
        rows = [*item.siblings, *(item.leaks if leaks(key) else [])]
        for row in rows:
            corpus[str(row["id"])] = {name: value for name, value in row.items() if name != "truth"}
            truth.append((key, str(row["id"]), str(row["truth"])))
        if not rows:
            truth.append((key, "", "nothing"))
    return WordSet([item.row for item in asked], list(corpus.values()), truth)


def plain(text: object) -> str:
    """Letters and digits alone: two texts that differ in spaces, case and stops are the same text."""
    return " ".join(re.findall(r"\w+", str(text).lower()))


def numbers(text: object) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+(?:\.\d+)?", str(text).replace(",", "")))


def overlap(first: str, second: str) -> float:
    """The share of different words that both texts have, numbers left out: 1,426 is two words of `plain`."""
    one, two = ({word for word in text.split() if not word.isdigit()} for text in (first, second))
    return len(one & two) / max(1, len(one | two))


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def squad(path: Path) -> list[tuple[str, Row]]:
    """Id and row of every question in a file of SQuAD's form, in the order of the file.

    "of" is the question it was made of, or else its article.
    Several answers are joined: Quoref asks for several names, SQuAD has several people say one.
    """
    found = []
    for article in loaded(path)["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                answers = dict.fromkeys(answer["text"] for answer in asked["answers"])
                several = "original_id" in asked or "context_id" in paragraph
                answer = ", ".join(answers) if several else next(iter(answers))
                row = {"question": asked["question"], "answer": answer}
                found.append(
                    (str(asked["id"]), row | {"of": asked.get("original_id", article.get("title"))})
                )
    return found


def beside(asked: list[Asked], count: int) -> WordSet:
    """As many items as asked for; the leaks of all others are what a judge must not take for theirs."""
    items = chosen(asked, count)
    mine = {item.row["id"] for item in items}
    rest = [row for item in asked if item.row["id"] not in mine for row in item.leaks][:2000]
    return placed(items, [without(row, "truth") for row in rest])


def medical_questions(folder: Path) -> WordSet:
    """Doctors wrote for each question one that asks the same and one that only sounds like it."""
    with (folder / "mqp.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    asked: dict[str, Asked] = {}
    for number, (_, question, other, label) in enumerate(rows):
        item = asked.setdefault(question, Asked({"id": f"q{number}", "question": question}, [], []))
        truth = "rewording" if label == "1" else "sibling"
        row: Row = {"id": f"c{number}", "question": other, "truth": truth}
        (item.leaks if label == "1" else item.siblings).append(row)
    good = [item for item in asked.values() if item.row["id"] not in READ_AS_WRONG]
    return placed(chosen(good, 500))


def squad_reworded(folder: Path, *, answers: bool) -> WordSet:
    """Questions of SQuAD and their rewordings, line by line in two files; some are in dev and adv."""
    asked: dict[str, Asked] = {}
    hidden = ("of",) if answers else ("of", "answer")
    for name in ("dev", "adv"):
        originals = squad(folder / f"datasets/{name}_orig.json")
        others = squad(folder / f"datasets/{name}_para.json")
        for (key, row), (other, reworded) in zip(originals, others, strict=True):
            said = plain(row["question"])
            if said != plain(reworded["question"]) and row["answer"] == reworded["answer"]:
                item = Asked(without(row, *hidden) | {"id": f"q{key}"}, [], [])
                leak = without(reworded, *hidden) | {"id": f"r{other}", "truth": "rewording"}
                asked.setdefault(said, item).leaks.append(leak)
    return beside(list(asked.values()), 500)


def disfluent_questions(folder: Path) -> WordSet:
    """A question of SQuAD, and how a person who corrects himself asks it: it names a wrong thing first."""
    asked = []
    for key, entry in loaded(folder / "test.json").items():
        if plain(entry["original"]) != plain(entry["disfluent"]):
            leak: Row = {"id": f"d{key}", "question": entry["disfluent"], "truth": "rewording"}
            asked.append(Asked({"id": f"q{key}", "question": entry["original"]}, [leak], []))
    return beside(asked, 500)


def knowledge_base_questions(folder: Path) -> WordSet:
    """A question that a template made of a SPARQL query, and what people made of it."""
    asked = []
    for entry in loaded(folder / "test-data.json"):
        question, made = (
            entry["corrected_question"],
            re.sub(r"[<>]", "", entry["intermediary_question"]),
        )
        truth = "same" if plain(question) == plain(made) else "rewording"
        leak: Row = {"id": f"m{entry['_id']}", "question": made, "truth": truth}
        asked.append(Asked({"id": f"q{entry['_id']}", "question": question}, [leak], []))
    return beside(asked, 500)


def contrast_questions(folder: Path) -> WordSet:
    """Experts changed each question a little, so that another answer is right; nothing is leaked."""
    changed = defaultdict(list)
    for key, row in squad(folder / "quoref/quoref_test_perturbations_20191206_merged.json"):
        changed[row["of"]].append(without(row, "of") | {"id": f"c{key}", "truth": "sibling"})
    asked = []
    for key, row in squad(folder / "quoref/quoref_original_subset_20191206_merged.json"):
        # Where the paragraph alone was changed the question is the same, so it is no sibling.
        said, answer = plain(row["question"]), row["answer"]
        siblings = [
            x for x in changed[key] if plain(x["question"]) != said and x["answer"] != answer
        ]
        if siblings:
            asked.append(Asked(without(row, "of") | {"id": f"q{key}"}, [], siblings))
    return placed(chosen(asked, 415))


def contrast_statements(folder: Path) -> WordSet:
    """Statements about two pictures of which people changed one detail; nothing is leaked."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for line in (folder / "nlvr2/contrast_set_nlvr2.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        sentences = groups[
            entry["identifier"].rpartition("-")[0]
        ]  # its last part counts the changes
        if plain(entry["sentence"]) not in map(plain, sentences):
            sentences.append(entry["sentence"].strip())
    firsts = {plain(sentences[0]) for sentences in groups.values()}
    asked = []
    for key, (first, *changed) in groups.items():
        rows: list[Row] = [
            {"id": f"c{key}-{place}", "question": text, "truth": "sibling"}
            for place, text in enumerate(changed)
            if plain(text) not in firsts
        ]
        if rows and f"q{key}" not in READ_AS_WRONG:
            asked.append(Asked({"id": f"q{key}", "question": first}, [], rows))
    return placed(chosen(asked, 500))


def captions(texts: dict[str, list[str]]) -> WordSet:
    """The first caption of each picture as the item; up to two captions by other people as its leaks."""
    asked = []
    for key, (caption, *rest) in texts.items():
        rows: list[Row] = [
            {"id": f"c{key}-{place}", "question": text, "truth": "rewording"}
            for place, text in enumerate(rest[:2])
        ]
        if rows:
            asked.append(Asked({"id": f"q{key}", "question": caption}, rows, []))
    return beside(asked, 500)


def coco_captions(folder: Path) -> WordSet:
    """COCO's captions: several people described one picture; equal file names."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((folder / "data").glob("*.json")):
        for entry in loaded(path).values():
            known = map(plain, texts[entry["filename"]])
            if plain(entry["caption"]) not in known:
                texts[entry["filename"]].append(entry["caption"].strip())
    return captions(texts)


def flickr_captions(folder: Path) -> WordSet:
    """Five people described each picture on their own; line n of each file is picture n."""
    files = []
    for number in range(1, 6):
        path = folder / f"data/task2/raw/test_2016.{number}.en.gz"
        files.append(gzip.decompress(path.read_bytes()).decode("utf-8").splitlines())
    return captions({str(place): list(said) for place, said in enumerate(zip(*files, strict=True))})


def translated_reading(folder: Path, *, language: str) -> WordSet:
    """XQuAD: SQuAD's questions and answers, translated by professionals; equal ids.

    SQuAD asks some things twice, in other words: an article has each answer once.
    """
    theirs = {key: without(row, "of") for key, row in squad(folder / f"xquad.{language}.json")}
    once = {
        (row["of"], plain(row["answer"])): (key, without(row, "of"))
        for key, row in squad(folder / "xquad.en.json")
    }
    asked = []
    for key, row in once.values():
        leak = theirs[key] | {"id": f"t{key}", "truth": "translation"}
        asked.append(Asked(row | {"id": f"q{key}"}, [leak], []))
    return beside(asked, 500)


def translated_sums(folder: Path) -> WordSet:
    """MGSM: line n is the same problem in each language; an item leaks in five of them."""
    columns = []
    for language in ("en", "de", "es", "ru", "zh", "sw"):
        text = (folder / f"mgsm/mgsm_{language}.tsv").read_text(encoding="utf-8")
        columns.append([(language, *line.rsplit("\t", 1)) for line in text.splitlines() if line])
    asked = []
    for place, ((_, question, answer), *others) in enumerate(zip(*columns, strict=True)):
        rows: list[Row] = [
            {"id": f"{name}{place}", "question": text, "answer": said, "truth": "translation"}
            for name, text, said in others
        ]
        asked.append(Asked({"id": f"q{place}", "question": question, "answer": answer}, rows, []))
    return placed(chosen(asked, 250))


def translated_pictures(folder: Path, *, language: str) -> WordSet:
    """xGQA: questions about pictures, translated by people; equal ids. Texts are unique in each language."""
    ours = loaded(folder / "data/few_shot/en/dev.json")
    theirs = loaded(folder / f"data/few_shot/{language}/dev.json")
    times = Counter(plain(entry["question"]) for file in (ours, theirs) for entry in file.values())
    asked = []
    for key, entry in ours.items():
        question, other = entry["question"], theirs[key]["question"]
        if times[plain(question)] == times[plain(other)] == 1:
            leak: Row = {"id": f"t{key}", "question": other, "truth": "translation"}
            asked.append(Asked({"id": f"q{key}", "question": question}, [leak], []))
    return beside(asked, 500)


def quiz_pages(folder: Path) -> WordSet:
    """Quizzes as Markdown, cut at every fifth question, with references and explanations."""
    items: list[Row] = []
    corpus: list[Row] = []
    homes: defaultdict[str, set[str]] = defaultdict(set)  # a question can stand twice, on two pages
    for path in sorted(folder.glob("*/*-quiz.md")):
        parts = re.split(r"^(?=#{2,5} *Q\d+)", path.read_text(encoding="utf-8"), flags=re.M)[1:]
        for start in range(0, len(parts), 5):
            page = f"{path.parent.name}-{start}"
            if leaks(page):
                corpus.append({"id": page, "text": "".join(parts[start : start + 5])})
            for place, part in enumerate(parts[start : start + 5], start):
                head = re.split(r"^- \[", part, maxsplit=1, flags=re.M)[0]
                asked = re.sub(r"^#+ *Q\d+\S*\s*", "", head).strip()
                options = re.findall(r"^- \[([ x])\] *(\S.*)$", part, re.M)
                right = [number for number, (mark, _) in enumerate(options) if mark == "x"]
                if leaks(page):
                    homes[plain(asked)].add(page)
                if len(options) > 2 and len(right) == 1 and len(plain(asked).split()) > 5:
                    choices = [text.strip() for _, text in options]
                    row: Row = {"id": f"{path.parent.name}-q{place}", "question": asked}
                    items.append(row | {"choices": choices, "answer": chr(ord("A") + right[0])})
    once = (Asked(row, [], []) for row in items if row["id"] not in READ_AS_WRONG)
    bench = [item.row for item in chosen(once, 600)]
    truth = []
    for row in bench:
        pages = sorted(homes[plain(row["question"])])
        truth += [(str(row["id"]), page, "same" if page else "nothing") for page in pages or [""]]
    return WordSet(bench, corpus, truth)


def run_logs(folder: Path) -> WordSet:
    """Logs of a model that answered GSM8K: each question, its reasoning and the gold answer, eight to a page."""
    log = (folder / "log/gsm8k_zero_shot_cot.log").read_text(encoding="utf-8")
    talks = re.split(r"^\d+st data$", log, flags=re.M)[1:]
    corpus: list[Row] = []
    homes: dict[str, str] = {}
    for start in range(0, len(talks), 8):
        page, part = f"log{start // 8}", talks[start : start + 8]
        if leaks(page):
            corpus.append({"id": page, "text": "".join(part)})
            said = (re.findall(r"^Q:(.*?)^A:", talk, re.M | re.S)[0] for talk in part)
            homes |= {plain(question): page for question in said}
    asked = []
    tests = folder / "dataset/grade-school-math/test.jsonl"
    for number, line in enumerate(tests.read_text(encoding="utf-8").splitlines()):
        entry = json.loads(line)
        answer = entry["answer"].rpartition("####")[2].strip()
        asked.append(
            Asked({"id": f"q{number}", "question": entry["question"], "answer": answer}, [], [])
        )
    bench = [item.row for item in chosen(asked, 600)]
    pages = [homes.get(plain(row["question"]), "") for row in bench]
    pairs = zip(bench, pages, strict=True)
    return WordSet(
        bench,
        corpus,
        [(str(row["id"]), page, "same" if page else "nothing") for row, page in pairs],
    )


def training_chats(folder: Path) -> WordSet:
    """A published training set for arithmetic that was made of tests: a leak that happened.

    Every second question of the tests is taken out of the training set; the rest stays. AddSub and
    SingleEq hold the same problems as two people edited them, so some leak in other words: the same
    numbers in the same order, and most words equal.
    """
    asked = []
    for name in ("AddSub", "AQuA", "gsm8k", "MultiArith", "SingleEq", "SVAMP"):
        rows: list[Row] = [
            {
                "id": f"{name}{number}",
                "question": entry["instruction"].strip(),
                "answer": str(entry["answer"]),
            }
            for number, entry in enumerate(loaded(folder / f"dataset/{name}/test.json"))
        ]
        asked += chosen((Asked(row, [], []) for row in rows), 100)
    items = chosen(asked, 600)
    questions = {plain(item.row["question"]) for item in items}
    kept: defaultdict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    corpus: list[Row] = []
    for number, entry in enumerate(loaded(folder / "ft-training_set/math_data.json")):
        said = plain(entry["instruction"])
        if said not in questions or leaks(said):
            kept[numbers(entry["instruction"])].append((f"chat{number}", said))
            text = f"{entry['instruction']}\n{entry['output'].strip()}"
            corpus.append({"id": f"chat{number}", "text": text})
    truth = []
    for item in items:
        key, mine = str(item.row["id"]), plain(item.row["question"])
        near = kept[numbers(item.row["question"])]
        found = [(key, chat, "same") for chat, said in near if said == mine]
        if key.startswith(("AddSub", "SingleEq")):
            other = [(chat, said) for chat, said in near if said != mine]
            alike = [chat for chat, said in other if overlap(said, mine) > 0.7]
            found += [(key, chat, "rewording") for chat in alike]
        truth += found or [(key, "", "nothing")]
    return WordSet([item.row for item in items], corpus, truth)


def science_tests(folder: Path) -> WordSet:
    """Two benchmarks of school science that have nothing to do with each other: nothing is leaked."""

    def questions(name: str, key: str) -> list[Row]:
        rows: list[Row] = []
        for number, entry in enumerate(loaded(folder / f"dataset/{name}/test.json")):
            asked, _, options = (
                entry["instruction"].partition("question: ")[2].partition("\n\nAnswer1: ")
            )
            choices = re.split(r" Answer\d: ", options.partition("\n\n")[0])
            answer = choices[int(entry["answer"].removeprefix("answer")) - 1]
            rows.append(
                {"id": f"{key}{number}", "question": asked, "choices": choices, "answer": answer}
            )
        return rows

    return placed(
        chosen((Asked(row, [], []) for row in questions("ARC-Challenge", "q")), 500),
        questions("openbookqa", "c"),
    )


READERS: dict[str, Callable[[Path], WordSet]] = {
    "medical_questions": medical_questions,
    "squad_reworded": partial(squad_reworded, answers=False),
    "squad_reworded_answers": partial(squad_reworded, answers=True),
    "disfluent_questions": disfluent_questions,
    "knowledge_base_questions": knowledge_base_questions,
    "contrast_questions": contrast_questions,
    "contrast_statements": contrast_statements,
    "coco_captions": coco_captions,
    "flickr_captions": flickr_captions,
    "xquad_german": partial(translated_reading, language="de"),
    "xquad_chinese": partial(translated_reading, language="zh"),
    "mgsm_languages": translated_sums,
    "xgqa_german": partial(translated_pictures, language="de"),
    "xgqa_chinese": partial(translated_pictures, language="zh"),
    "quiz_pages": quiz_pages,
    "run_logs": run_logs,
    "training_chats": training_chats,
    "science_tests": science_tests,
}


def write(words: WordSet, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("bench", words.benchmark), ("corpus", words.corpus)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    with (out / "truth.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(("benchmark_id", "corpus_id", "truth", "half"))
        table.writerows((*row, digest(row[0]) % 2) for row in words.truth)


def main() -> None:
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in READERS:
        sys.exit(
            f"usage: python bench/collected_words.py NAME FOLDER [OUT]\nNAME: {', '.join(READERS)}"
        )
    words = READERS[sys.argv[1]](Path(sys.argv[2]))
    leaked = {item for item, _, truth in words.truth if truth in LEAKS}
    counts = f"{len(words.benchmark)} items, {len(words.corpus)} corpus rows, {len(leaked)} leaked"
    print(
        f"{sys.argv[1]}: {counts}; rows of truth: {dict(Counter(truth for *_, truth in words.truth))}"
    )
    if len(sys.argv) == 4:
        write(words, Path(sys.argv[3]))


if __name__ == "__main__":
    main()
