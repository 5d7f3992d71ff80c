"""The study end to end: equal to counting by hand, blind to blocks, honest about ties."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from lab_pictures import Constant, Thumbnail, Verdict, benchmark, features, png, register, scene
from numpy.typing import NDArray
from PIL import Image, ImageOps

from heldout.benchmark import read_benchmark
from heldout.engine import LocalEngine
from heldout.errors import InputError
from heldout.lab import (
    TRANSFORMS,
    Collection,
    PairJudge,
    TransformStudy,
    collect,
    judge_by_registration,
    study_csv,
    study_page,
    study_transforms,
    write_studies,
)
from heldout.lab.settings import TransformSettings
from heldout.lab.transforms._counts import auc_interval
from heldout.lab.transforms.result import keep_robustness, rate, refuse_another_encoder
from heldout.overlap.images.encoder import open_encoder
from heldout.report.robustness import own_measurement
from heldout.store import Run

NAMES = ["flip-h", "gauss", "rs-128", "noise", "border"]
DEGREES = {"high": 0.9, "low": 0.4}  # low enough for false pairs among two dozen scenes


@pytest.fixture(scope="module")
def scenes() -> Collection:
    sizes = [64, 64, 160]  # the small ones cannot be reduced to 128 pixels
    pictures = [png(scene(seed, sizes[seed % 3])) for seed in range(24)]
    return collect(benchmark(pictures))


@pytest.fixture(scope="module")
def small(scenes: Collection) -> TransformStudy:
    plan = TransformSettings(
        transforms=NAMES, degrees=DEGREES, fpr_targets=(0.05, 1e-6), side="query"
    )
    return study_transforms(scenes, Thumbnail(), plan, quiet=True)


def test_every_rate_equals_counting_by_hand(scenes: Collection, small: TransformStudy) -> None:
    encoder = Thumbnail()
    pictures = [item.image.open() for item in scenes.items]
    rows = encoder.encode(pictures).astype(np.float64)
    own_all, other_all = [], []
    for name in ["original", *NAMES]:
        kept = [
            i for i, picture in enumerate(pictures) if TRANSFORMS[name].applies_to(picture.size)
        ]
        made = [TRANSFORMS[name](pictures[i], seed=0, key=scenes.items[i].digest) for i in kept]
        similar = encoder.encode(made).astype(np.float64) @ rows.T
        own = similar[np.arange(len(kept)), kept]
        others = np.array([np.delete(similar[row], i) for row, i in enumerate(kept)])
        found = small.measured(name)
        assert found.queries == len(kept)
        assert found.skipped == 24 - len(kept)
        assert found.recall_at_1.hits == (own > others.max(axis=1)).sum()
        area = (own[:, None, None] > others).mean()
        assert found.auc.value == pytest.approx(area, abs=2e-4)  # ties within a grain of 1e-5
        for point in found.operating[:2]:
            limit = DEGREES[point.threshold]
            assert point.tpr.hits == (own >= limit).sum()
            false = (others >= limit).sum(axis=1)
            assert (point.false_pairs, point.pairs) == (false.sum(), others.size)
            bounds = rate(false, [23] * len(kept), [scenes.items[i].cluster for i in kept])
            assert (point.fpr_low, point.fpr_high) == (bounds.low, bounds.high)
        ones = np.ones(len(kept))
        interval = auc_interval(
            area,
            (own[:, None, None] > others).mean(axis=(1, 2)),
            ones,
            (own[:, None, None] > others).mean(axis=0).sum(axis=1),
            ones * 23,
        )
        assert (found.auc.low, found.auc.high) == pytest.approx(interval[:2], abs=2e-3)
        if name != "original":
            own_all.append(own)
            other_all.append(others.ravel())
    pooled = small.measured("trans")
    own_seed, other_seed = np.concatenate(own_all[:4]), np.concatenate(other_all[:4])
    assert pooled.auc.value == pytest.approx((own_seed[:, None] > other_seed).mean(), abs=2e-4)
    assert pooled.queries == len(own_seed)
    assert small.measured("all").queries == sum(map(len, own_all))


def test_the_table_tells_transforms_apart(small: TransformStudy) -> None:
    assert small.measured("original").recall_at_1.value == 1.0
    assert small.measured("noise").recall_at_1.value == 1.0
    assert small.measured("rs-128").skipped == 16
    flipped = small.measured("flip-h")
    assert flipped.recall_at_1.value is not None
    assert flipped.recall_at_1.value < 0.5
    assert flipped.recall_at_1.low < flipped.recall_at_1.value < flipped.recall_at_1.high
    assert flipped.auc.low < (flipped.auc.value or 0) < flipped.auc.high
    calibrated = {threshold.name: threshold for threshold in small.thresholds}
    assert calibrated["FPR 0.05"].value is not None
    assert calibrated["FPR 1e-06"].value is None
    assert "552 pairs" in calibrated["FPR 1e-06"].reason
    original = small.measured("original").operating[-1]
    assert original.fpr is not None
    assert original.fpr <= 0.05


@pytest.mark.parametrize("block", [1, 7, 100])
def test_blocks_change_nothing(scenes: Collection, small: TransformStudy, block: int) -> None:
    plan = TransformSettings(
        transforms=NAMES, degrees=DEGREES, fpr_targets=(0.05, 1e-6), block=block, side="query"
    )
    assert study_transforms(scenes, Thumbnail(), plan, quiet=True) == small


def test_a_tie_is_a_miss_and_half_a_pair(scenes: Collection) -> None:
    blind = study_transforms(
        scenes, Constant(), TransformSettings(transforms=("flip-h",), side="query"), quiet=True
    )
    found = blind.measured("flip-h")
    assert found.recall_at_1.hits == 0
    assert found.ties == 24
    assert found.auc.value == 0.5


def test_views_of_the_query_find_what_one_view_misses(scenes: Collection) -> None:
    def mirrored(image: Image.Image) -> tuple[list[str], NDArray[np.float32]]:
        return ["as it is", "mirrored"], Thumbnail().encode([image, ImageOps.mirror(image)])

    found = study_transforms(
        scenes,
        Thumbnail(),
        TransformSettings(transforms=("flip-h",), side="query"),
        views=mirrored,
        quiet=True,
    )
    assert found.views == 2
    assert found.measured("flip-h").recall_at_1.value == 1.0
    assert found.measured("flip-h").median_similarity == pytest.approx(1.0, abs=1e-5)


def test_a_cropped_copy_in_the_corpus_is_found_by_a_cropped_view_of_the_query(
    scenes: Collection,
) -> None:
    def cropped(image: Image.Image) -> tuple[list[str], NDArray[np.float32]]:
        inner = ImageOps.crop(image, 20) if min(image.size) > 60 else image
        return ["as it is", "cropped"], Thumbnail().encode([image, inner])

    plan = TransformSettings(transforms=("crop-20",), side="corpus")
    seen = study_transforms(scenes, Thumbnail(), plan, views=cropped, quiet=True)
    assert seen.measured("crop-20").recall_at_1.value == 1.0
    assert seen.measured("crop-20").median_similarity == pytest.approx(1.0, abs=1e-5)
    assert seen.measured("crop-20").queries == 8  # the small scenes cannot lose 20 pixels
    other_way = study_transforms(
        scenes,
        Thumbnail(),
        TransformSettings(transforms=("crop-20",), side="query"),
        views=cropped,
        quiet=True,
    )
    assert (other_way.measured("crop-20").median_similarity or 1.0) < 0.99


def test_the_judge_gets_the_transformed_picture_on_the_side_that_was_transformed(
    scenes: Collection,
) -> None:
    def only_red(query: Image.Image, candidate: Image.Image) -> bool:
        return bool(np.asarray(candidate)[..., 1:].max() == 0)  # only a red copy has red alone

    plan = TransformSettings(transforms=("red",), side="corpus", queries=5, nearest=2)
    found = study_transforms(
        scenes, Thumbnail(), plan, judge=PairJudge("red", only_red), quiet=True
    )
    original, red = found.measured("original").verified, found.measured("red").verified
    assert original is not None
    assert red is not None
    assert (original.accepted.hits, red.accepted.hits) == (0, 5)
    # The query is the same under every transform, so different pictures are judged once, and two
    # queries that list each other are one pair.
    assert 5 <= original.false_alarms.n <= 10
    assert red.false_alarms.n == 0


def test_figures_are_filled_with_pictures_that_are_not_searched(scenes: Collection) -> None:
    found = study_transforms(
        scenes,
        Thumbnail(),
        TransformSettings(transforms=("compound-6",), queries=6, side="query"),
        quiet=True,
    )
    assert (found.pictures, found.strangers, found.queries) == (19, 5, 6)
    few = Collection("few", scenes.items[:7])
    with pytest.raises(InputError, match="at least 8"):
        study_transforms(
            few,
            Thumbnail(),
            TransformSettings(transforms=("compound-6",), side="query"),
            quiet=True,
        )


def test_parts_of_corpus_pictures_are_found_where_the_whole_is_not(scenes: Collection) -> None:
    def quarters(image: Image.Image) -> list[Image.Image]:
        half = (image.width // 2, image.height // 2)
        corners = [(0, 0), (half[0], 0), (0, half[1]), half]
        return [image, *(image.crop((x, y, x + half[0], y + half[1])) for x, y in corners)]

    plan = TransformSettings(transforms=("compound-4",), queries=6, side="corpus")
    whole = study_transforms(scenes, Thumbnail(), plan, quiet=True).measured("compound-4")
    inside = study_transforms(scenes, Thumbnail(), plan, parts=quarters, quiet=True)
    recall = inside.measured("compound-4").recall_at_k
    assert recall.hits > whole.recall_at_k.hits
    assert inside.measured("original").recall_at_1.value == 1.0


def test_other_sources_are_searched_and_never_queried_with() -> None:
    own = benchmark([png(scene(seed)) for seed in range(9)])
    others = benchmark([png(scene(seed)) for seed in range(7, 20)])
    both = collect(own, among=[others])
    assert len(both) == 20  # two are in both
    assert sum(item.searched_only for item in both.items) == 11
    assert both.sample(None, 0) == list(range(9))
    found = study_transforms(
        both, Thumbnail(), TransformSettings(transforms=("original",), side="corpus"), quiet=True
    )
    assert (found.queries, found.pictures, found.searched_only) == (9, 20, 11)


def test_judged_pairs_are_of_one_group_and_each_is_judged_once(scenes: Collection) -> None:
    items = [
        dataclasses.replace(item, group="AB"[index % 2]) for index, item in enumerate(scenes.items)
    ]
    grouped = Collection("groups", tuple(items))
    plan = TransformSettings(transforms=("original",), side="corpus", pairs=10_000, group="letter")
    found = study_transforms(grouped, Thumbnail(), plan, judge=PairJudge("no", never), quiet=True)
    verified = found.measured("original").verified
    assert verified is not None
    count = [sum(item.group == letter for item in items) for letter in "AB"]
    assert verified.false_alarms.n == sum(n * (n - 1) // 2 for n in count)
    with pytest.raises(InputError, match="no column 'organ'"):
        collect(benchmark([png(scene(0))]), group="organ")


@pytest.mark.parametrize(
    ("relation", "transform", "answer"),
    [
        ("same image", "none", True),
        ("transformed copy", "rotated 90°, changed in part", None),
        ("undecided", "", None),
        ("look-alike", "", False),
    ],
)
def test_what_an_audit_leaves_to_people_is_not_found(
    relation: str, transform: str, answer: bool | None
) -> None:
    judge = judge_by_registration(lambda query, candidate: Verdict(relation, transform))
    assert judge.same(None, None) is answer


def never(query: object, candidate: object) -> bool:
    return False


def test_the_cascade_needs_the_shortlist_and_the_judge(scenes: Collection) -> None:
    plan = TransformSettings(transforms=("flip-h", "gray"), nearest=3, side="query")
    judge = judge_by_registration(register, prepare=features, identity="thumbnails at .97")
    here = study_transforms(scenes, Thumbnail(), plan, judge=judge, quiet=True)
    with LocalEngine(1) as engine:
        there = study_transforms(scenes, Thumbnail(), plan, judge=judge, engine=engine, quiet=True)
    assert here == there
    grey, flipped = here.measured("gray").verified, here.measured("flip-h").verified
    assert grey is not None
    assert flipped is not None
    assert grey.found.hits == grey.accepted.hits == grey.shortlisted.hits == 24
    assert flipped.accepted.value == 0.0  # this judge does not know mirrors …
    assert flipped.found.value == 0.0
    assert flipped.shortlisted.hits > 0  # … although some were shortlisted
    assert grey.false_alarms.n == 24 * 3
    assert here.judge == "thumbnails at .97"


def test_a_judge_that_accepts_everything_is_shown_for_what_it_is(scenes: Collection) -> None:
    anything = PairJudge("anything", lambda query, candidate: True)
    found = study_transforms(
        scenes,
        Thumbnail(),
        TransformSettings(transforms=("original",), queries=4, nearest=2, side="query"),
        judge=anything,
        quiet=True,
    )
    verified = found.measured("original").verified
    assert verified is not None
    assert (verified.false_alarms.hits, verified.false_alarms.n) == (8, 8)
    assert len(found.wrongly_accepted) == 8


def test_a_failing_judge_ends_the_study(scenes: Collection) -> None:
    from heldout.errors import HeldoutError

    def fails(query: object, candidate: object) -> bool:
        raise ValueError("no features")

    with (
        LocalEngine(1) as engine,
        pytest.raises(HeldoutError, match="no features"),
    ):
        study_transforms(
            scenes,
            Thumbnail(),
            TransformSettings(transforms=("original",), queries=2, side="query"),
            judge=PairJudge("fails", fails),
            engine=engine,
            quiet=True,
        )


def test_wrong_plans_and_encoders_are_refused(scenes: Collection) -> None:
    with pytest.raises(InputError, match="^transforms rot-17: .*original, flip-v"):
        study_transforms(
            scenes, Thumbnail(), TransformSettings(transforms=("rot-17",), side="query"), quiet=True
        )

    class Long(Thumbnail):
        def encode(self, images):  # type: ignore[no-untyped-def]
            return super().encode(images) * 3

    with pytest.raises(InputError, match="unit rows"):
        study_transforms(
            scenes, Long(), TransformSettings(transforms=("original",), side="query"), quiet=True
        )


def test_an_encoder_of_overlap_is_studied_with_its_views(scenes: Collection) -> None:
    plain = study_transforms(
        scenes,
        open_encoder("pixels"),
        TransformSettings(transforms=("flip-h", "rot-90"), queries=8, side="query"),
        quiet=True,
    )
    encoder = open_encoder("pixels")
    seen = study_transforms(
        scenes,
        encoder,
        TransformSettings(transforms=("flip-h", "rot-90"), queries=8, side="query"),
        views=encoder.encode_views,
        quiet=True,
    )
    assert plain.measured("original").recall_at_1.value == 1.0
    assert seen.measured("flip-h").recall_at_1.hits == 8
    assert seen.views == len(encoder.encode_views(scene(0))[0])
    before, after = (study.measured("rot-90").median_similarity or 0 for study in (plain, seen))
    assert after > before + 0.1


def test_the_closest_pair_of_different_pictures_is_named() -> None:
    near = scene(3)
    near.putpixel((5, 5), (255, 0, 0))
    pictures = [png(scene(seed)) for seed in range(8)] + [png(near)]
    found = study_transforms(
        collect(benchmark(pictures)),
        Thumbnail(),
        TransformSettings(transforms=("original",), side="query"),
        quiet=True,
    )
    assert (found.closest[0].one, found.closest[0].other) == ("3.png", "8.png")
    known = collect(benchmark(pictures), copies=[("3.png", "8.png")])
    assert (
        study_transforms(
            known,
            Thumbnail(),
            TransformSettings(transforms=("original",), side="query"),
            quiet=True,
        )
        .closest[0]
        .other
        != "8.png"
    )


def test_a_study_is_written_for_people_and_for_scripts(
    small: TransformStudy, tmp_path: Path
) -> None:
    written = write_studies([small, small], tmp_path, command="heldout lab transforms")
    page, table, document = written[:3]
    assert TransformStudy.model_validate(json.loads(document.read_text())[0]) == small
    text = page.read_text()
    assert text == study_page([small, small], command="heldout lab transforms")
    for path in written[3:]:
        assert f"](figures/{path.name})" in text
        assert path.read_text().startswith("<svg")
    assert "| rs-128 | 8 |" in text
    assert "a rate of 1e-06" in text
    rows = list(csv.DictReader(io.StringIO(study_csv([small]))))
    assert table.read_text().count("\n") == 2 * len(rows) + 1
    recall = next(r for r in rows if (r["transform"], r["measure"]) == ("noise", "R@1"))
    assert (recall["value"], recall["hits"], recall["n"]) == ("1.0", "24", "24")


def test_a_bar_in_a_name_breaks_no_table(small: TransformStudy) -> None:
    barred = small.model_copy(update={"encoder": "pixels | 64 grey"})
    other = small.model_copy(update={"encoder": "pixels | 32 grey"})
    for studies in ([barred], [barred, other]):
        lines = study_page(studies).splitlines()
        for number, line in enumerate(lines):
            if line.startswith("|---"):
                table = [lines[number - 1], *itertools.takewhile(str.strip, lines[number:])]
                columns = {len(re.findall(r"(?<!\\)\|", row)) for row in table}
                assert len(columns) == 1, table[0]


def test_radiographs_are_found_again(shared_data: Path) -> None:
    collection = collect(read_benchmark(f"{shared_data}/vqa_rad#split=test"), limit=40)
    names = ["rs-256", "gray", "jpeg-30", "invert", "compound-6"]
    found = study_transforms(
        collection,
        Thumbnail(),
        TransformSettings(transforms=names, queries=12, side="query"),
        quiet=True,
    )
    for name in ("original", "rs-256", "gray", "jpeg-30"):
        assert found.measured(name).recall_at_1.value == 1.0, name
    # A thumbnail is blind to inversion: the picture itself is the least similar of all.
    assert found.measured("invert").recall_at_1.value == 0.0
    assert (found.measured("invert").auc.value or 0.0) < 0.2


def test_a_study_is_kept_for_the_report_of_a_run(tmp_path: Path, small: TransformStudy) -> None:
    run = Run.create(tmp_path / "run", command=["heldout", "overlap"])
    stage = {"corpus": "web", "source": "web", "encoder": small.encoder, "counts": {}}
    run.update("stages", {"overlap/web": stage})
    refuse_another_encoder(run, small.encoder)
    with pytest.raises(InputError, match="another encoder"):
        refuse_another_encoder(run, "another | 1 pixel")
    keep_robustness([small], run.path, "heldout lab transforms")
    kept = own_measurement(run)
    assert kept is not None
    (one,) = kept.studies
    assert one.command == "heldout lab transforms"
    assert [entry.name for entry in one.transforms] == [entry.name for entry in small.transforms]
    noise = next(entry for entry in one.transforms if entry.name == "noise")
    assert noise.shortlisted.hits == small.measured("noise").recall_at_k.hits
    assert noise.found is None  # nothing was verified
