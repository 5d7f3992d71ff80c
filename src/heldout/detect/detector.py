"""Detector: a test, and everything the rest of heldout has to know about it, citations included.

A detector of another package is one of these, found by the entry point ``heldout.detectors``; docs/own-detector.md
shows how to write one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import polars as pl

from heldout.detect.finding import Outcome
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables
from heldout.stats import Interval, cluster_mean, flip_test

# What to cite for a method, as BibTeX writes it.


class Citation(NamedTuple):
    """One entry of a bibliography.

    Args:
        kind: ``article``, ``misc``, …
        key: What ``\\cite`` takes.
        fields: Title, author, year and the rest.
    """

    kind: str
    key: str
    fields: dict[str, str]

    def text(self) -> str:
        lines = [f"  {name:<9} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def arxiv(key: str, title: str, author: str, year: int, eprint: str, venue: str = "") -> Citation:
    fields = {"title": title, "author": author, "year": str(year)}
    if venue:
        fields["booktitle"] = venue
    fields |= {"eprint": eprint, "archiveprefix": "arXiv"}
    return Citation("inproceedings" if venue else "misc", key, fields)


def article(
    key: str,
    title: str,
    author: str,
    journal: str,
    year: int,
    volume: str,
    pages: str,
    number: str = "",
) -> Citation:
    fields = {"title": title, "author": author, "journal": journal, "volume": volume}
    if number:
        fields["number"] = number
    return Citation("article", key, {**fields, "pages": pages, "year": str(year)})


OREN = arxiv(
    "oren2024proving",
    "Proving Test Set Contamination in Black-Box Language Models",
    "Oren, Yonatan and Meister, Nicole and Chatterji, Niladri S. and Ladhak, Faisal and Hashimoto, "
    "Tatsunori",
    2024,
    "2310.17623",
    "International Conference on Learning Representations",
)
SHI = arxiv(
    "shi2023detecting",
    "Detecting Pretraining Data from Large Language Models",
    "Shi, Weijia and Ajith, Anirudh and Xia, Mengzhou and Huang, Yangsibo and Liu, Daogao and Blevins, "
    "Terra and Chen, Danqi and Zettlemoyer, Luke",
    2023,
    "2310.16789",
)
ZHANG = arxiv(
    "zhang2025mink",
    "{Min-K\\%++}: Improved Baseline for Detecting Pre-Training Data from Large Language Models",
    "Zhang, Jingyang and Sun, Jingwei and Yeats, Eric and Ouyang, Yang and Kuo, Martin and Zhang, Jianyi "
    "and Yang, Hao Frank and Li, Hai",
    2025,
    "2404.02936",
    "International Conference on Learning Representations",
)
CARLINI = arxiv(
    "carlini2021extracting",
    "Extracting Training Data from Large Language Models",
    "Carlini, Nicholas and Tram{\\`e}r, Florian and Wallace, Eric and Jagielski, Matthew and "
    "Herbert-Voss, Ariel and Lee, Katherine and Roberts, Adam and Brown, Tom and Song, Dawn and "
    "Erlingsson, {\\'U}lfar and Oprea, Alina and Raffel, Colin",
    2021,
    "2012.07805",
    "USENIX Security Symposium",
)
YEOM = arxiv(
    "yeom2018privacy",
    "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting",
    "Yeom, Samuel and Giacomelli, Irene and Fredrikson, Matt and Jha, Somesh",
    2018,
    "1709.01604",
)
LI = arxiv(
    "li2024membership",
    "Membership Inference Attacks against Large Vision-Language Models",
    "Li, Zhan and Wu, Yongtao and Chen, Yihang and Tonin, Francesco and Abad Rocamora, Elias and Cevher, "
    "Volkan",
    2024,
    "2411.02902",
)
DAS = arxiv(
    "das2024blind",
    "Blind Baselines Beat Membership Inference Attacks for Foundation Models",
    "Das, Debeshee and Zhang, Jie and Tram{\\`e}r, Florian",
    2024,
    "2406.16201",
)
SONG = arxiv(
    "song2024both",
    "Both Text and Images Leaked! {A} Systematic Analysis of Data Contamination in Multimodal {LLM}",
    "Song, Dingjie and Lai, Sicheng and Wang, Mingxuan and Chen, Shunian and Sun, Lichao and Wang, Benyou",
    2024,
    "2411.03823",
)
CHEN = arxiv(
    "chen2024right",
    "Are We on the Right Way for Evaluating Large Vision-Language Models?",
    "Chen, Lin and Li, Jinsong and Dong, Xiaoyi and Zhang, Pan and Zang, Yuhang and Chen, Zehui and Duan, "
    "Haodong and Wang, Jiaqi and Qiao, Yu and Lin, Dahua and Zhao, Feng",
    2024,
    "2403.20330",
)
LIU = arxiv(
    "liu2023mmbench",
    "{MMBench}: Is Your Multi-modal Model an All-around Player?",
    "Liu, Yuan and Duan, Haodong and Zhang, Yuanhan and Li, Bo and Zhang, Songyang and Zhao, Wangbo and "
    "Yuan, Yike and Wang, Jiaqi and He, Conghui and Liu, Ziwei and Chen, Kai and Lin, Dahua",
    2023,
    "2307.06281",
)
YAO = arxiv(
    "yao2024data",
    "Data Contamination Can Cross Language Barriers",
    "Yao, Feng and Zhuang, Yufan and Sun, Zihao and Xu, Sunan and Kumar, Animesh and Shang, Jingbo",
    2024,
    "2406.13236",
    "Proceedings of the 2024 Conference on Empirical Methods in Natural Language Processing",
)
PARK = arxiv(
    "park2025contamination",
    "Contamination Detection for {VLMs} using Multi-Modal Semantic Perturbation",
    "Park, Jaden and Cai, Mu and Yao, Feng and Shang, Jingbo and Lee, Soochahn and Lee, Yong Jae",
    2025,
    "2511.03774",
)
DENG = arxiv(
    "deng2024investigating",
    "Investigating Data Contamination in Modern Benchmarks for Large Language Models",
    "Deng, Chunyuan and Zhao, Yilun and Tang, Xiangru and Gerstein, Mark and Cohan, Arman",
    2024,
    "2311.09783",
    "Proceedings of the 2024 Conference of the North American Chapter of the Association for Computational "
    "Linguistics: Human Language Technologies",
)
MAINI = arxiv(
    "maini2024llm",
    "{LLM} Dataset Inference: Did you train on my dataset?",
    "Maini, Pratyush and Jia, Hengrui and Papernot, Nicolas and Dziedzic, Adam",
    2024,
    "2406.06443",
)
DEKONINCK = arxiv(
    "dekoninck2024constat",
    "{ConStat}: Performance-Based Contamination Detection in Large Language Models",
    'Dekoninck, Jasper and M{\\"u}ller, Mark Niklas and Vechev, Martin',
    2024,
    "2405.16281",
    "Advances in Neural Information Processing Systems",
)
XU = arxiv(
    "xu2024benchmarking",
    "Benchmarking Benchmark Leakage in Large Language Models",
    "Xu, Ruijie and Wang, Zengzhi and Fan, Run-Ze and Liu, Pengfei",
    2024,
    "2404.18824",
)


#: item scores, higher = more likely seen; or the reason why this model has none
ItemScores = Callable[[ScoreTables, ModelScores, DetectSettings], "Floats | str"]
#: tokens that one model reads, from what was recorded and, by table, what its maker counted
Cost = Callable[[ScoreTables, str, "Mapping[str, Any] | None"], "int | None"]
TWIN_SCORES = "twin_scores"  # both answers on both pictures
KINDS = ("order", "membership", "cohort", "answers")


class Need(StrEnum):
    """What a detector needs beside its table."""

    UNSEEN = "items that no model can have seen"
    VOCABULARY = "mean and spread of log p over the vocabulary"
    REFERENCE = "a reference model"
    BASE = "the language model it was made from"
    DOCUMENTS = "a model that runs"
    BUDGET = "a budget of tokens for the order tests"
    COHORT = "three models with scores"
    CHOICES = "log-probabilities of the options"
    ENTROPIES = "entropies over picture, question and answer"


class Difference(NamedTuple):
    """Effect in the model less effect in the baseline; ``p`` two-sided."""

    model: str
    baseline: str
    value: float
    interval: Interval
    p: float
    what: str


#: model, baseline: the difference of their effects, or the reason why there is none
Against = Callable[[ScoreTables, str, str, DetectSettings], Difference | str]


@dataclass(frozen=True)
class Detector:
    """One test of whether a model has seen a benchmark.

    Args:
        name: What the setting ``detectors`` and the audit file call it.
        family: Findings of one family and model make one claim. A detector that asks a question of its
            own has a family of its own.
        summary: What it asks, in one line.
        find: Yields one outcome per cell. Higher means more likely seen; p is two-sided.
        needs: What has to be recorded: ``scores`` or ``answers``.
        table: The table it reads, if that is not ``scores`` or ``answers``.
        also: Tables that it reads besides or instead, where they are there; an audit that names it records them.
        requires: What it needs beside its table; an audit says beforehand what is missing.
        variants: Answers it reads. Each entry has to be there; ``|`` separates alternatives, ``*`` stands for
            anything.
        asks: Variants that an audit asks for if it names this detector, as the setting ``variants`` takes them.
        of: What one finding speaks of: a model, a pair of models, several models together, or the
            benchmark alone.
        claims: Whether its findings make claims.
        kind: Which rows of the verdict's table decide; by default the family if it has rows, else
            ``answers`` or ``membership`` by what it needs.
        controls: Controls of a finding that fires: names of heldout's own, or functions that take a
            ``heldout.verdict.ControlInput`` and return controls.
        against: Tests the difference to a baseline. Without it a claim is at most qualified.
        skill: Tests how much better than a baseline the model does where what it tests cannot help; asked by the
            control "skill of the references".
        item_scores: A score per item, where the test is made of one.
        cost: Tokens that one model reads for it; default: those of the answers or scores it reads.
        citations: What to cite.
    """

    name: str
    family: str
    summary: str
    find: Callable[[ScoreTables, DetectSettings], Iterable[Outcome]]
    needs: Literal["scores", "answers"] = "scores"
    table: str = ""
    also: tuple[str, ...] = ()
    requires: frozenset[Need] = frozenset()
    variants: tuple[str, ...] = ()
    asks: str = ""
    of: Literal["model", "pair", "models", "benchmark"] = "model"
    claims: bool = True
    kind: str = ""
    controls: tuple[str | Callable[..., Any], ...] = ("external baseline",)
    against: Against | None = field(default=None, repr=False)
    skill: Against | None = field(default=None, repr=False)
    item_scores: ItemScores | None = field(default=None, repr=False)
    cost: Cost | None = field(default=None, repr=False)
    citations: tuple[Citation, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.table:
            object.__setattr__(self, "table", self.needs)
        if not self.kind:
            other = "answers" if self.needs == "answers" else "membership"
            object.__setattr__(self, "kind", self.family if self.family in KINDS else other)

    def score(
        self, tables: ScoreTables, scored: ModelScores, settings: DetectSettings
    ) -> Floats | str:
        """Item scores of one model, or the reason why there are none."""
        if self.item_scores is None:
            return f"{self.name} is not made of item scores"
        return self.item_scores(tables, scored, settings)

    def read_variants(self, names: Iterable[str]) -> list[str]:
        """Which of these variants it reads."""
        return [name for name in names if any(_matches(name, entry) for entry in self.variants)]

    def lacks_variants(self, names: Collection[str]) -> bool:
        """Whether answers that it has to have are not among these variants."""
        return not all(any(_matches(name, entry) for name in names) for entry in self.variants)

    def forward_tokens(
        self, tables: ScoreTables, model: str, recorded: Mapping[str, Any] | None = None
    ) -> int | None:
        """Tokens that one model reads for this detector; None where that is not known.

        Args:
            tables: A run's tables.
            model: The model.
            recorded: By table, the tokens that its maker counted. Without, a scored item is taken to
                be as long as the same question asked with its picture.
        """
        if self.of in ("models", "benchmark"):
            return None
        if self.cost is not None:
            return self.cost(tables, model, recorded)
        answers = model_rows(tables.answers, model)
        if answers is None:
            return None
        if not self.variants:
            if recorded is not None:
                return int(recorded["scores"])
            return _tokens(answers.filter(pl.col("variant") == ORIGINAL))
        names = self.read_variants(answers["variant"].unique().to_list())
        asked = answers.filter(pl.col("variant").is_in(names))
        changed = asked.filter(pl.col("variant") != ORIGINAL)["benchmark_id"].unique()
        once = _tokens(asked.filter(pl.col("benchmark_id").is_in(changed.to_list())))
        return once * (2 if Need.BASE in self.requires else 1)  # the base is asked as well


ORIGINAL = "original"


GAIN = "gain above the baseline's"


def paired_difference(
    gap: Floats,
    clusters: list[str],
    model: str,
    baseline: str,
    settings: DetectSettings,
    unit: str,
    what: str = GAIN,
) -> Difference:
    """The mean of paired differences, with signs flipped cluster by cluster."""
    mean, _, interval = cluster_mean(gap, clusters)
    sums = pl.DataFrame({"cluster": clusters, "gap": gap}).group_by("cluster", maintain_order=True)
    test = flip_test(
        sums.agg(pl.col("gap").sum())["gap"].to_numpy(),
        permutations=settings.permutations,
        seed=settings.seed,
    )
    return Difference(model, baseline, mean, interval, test.p, f"{what}, {unit}")


def model_rows(table: pl.DataFrame | None, model: str) -> pl.DataFrame | None:
    """One model's rows; None where there are none."""
    rows = None if table is None else table.filter(pl.col("model") == model)
    return None if rows is None or rows.is_empty() else rows


def text_tokens(tables: ScoreTables, model: str) -> int:
    """Tokens of all questions and answers once, without pictures."""
    answers = model_rows(tables.answers, model)
    return 0 if answers is None else _tokens(answers.filter(pl.col("variant") == "no-image"))


def _tokens(answers: pl.DataFrame) -> int:
    return int(answers.select((pl.col("prompt_tokens") + pl.col("reply_tokens")).sum()).item())


def _matches(name: str, entry: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in entry.split("|"))
