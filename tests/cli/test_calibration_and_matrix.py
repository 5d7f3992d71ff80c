"""heldout overlap with calibration flags, heldout report on what it left, heldout matrix over runs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.errors import InputError
from heldout.overlap.images._pixels import PixelsEncoder
from heldout.report.robustness import published

pytest.importorskip("cv2", reason="registration needs heldout[vision]")

Picture = Callable[..., bytes]


def call(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of noise, a benchmark of which four pictures are in it re-saved, clean controls."""
    root = tmp_path_factory.mktemp("data")

    def noise(seed: int) -> Image.Image:
        import numpy as np

        pixels = np.random.default_rng(seed).integers(0, 256, (12, 12), dtype=np.uint8)
        return Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC)

    def save(folder: str, name: str, image: Image.Image, **options: Any) -> None:
        (root / folder).mkdir(exist_ok=True)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG" if options else "PNG", **options)
        (root / folder / name).write_bytes(buffer.getvalue())

    for seed in range(150):
        save("corpus", f"{seed:03d}.png", noise(seed))
    for seed in range(12):
        save("bench", f"{seed:02d}.png", noise(seed if seed < 4 else 1000 + seed))
    for seed in range(4):  # what is in the corpus is a JPEG of them
        save("corpus", f"{seed:03d}.png", noise(seed), quality=80)
    for seed in range(60):
        save("clean", f"{seed:02d}.png", noise(2000 + seed))
    save("clean", "in-the-corpus.png", noise(77))
    save("clean", "in-the-benchmark.png", noise(1005))
    return root


@pytest.fixture(scope="module")
def run(folders: Path) -> Path:
    out = folders / "run"
    call(
        "overlap",
        str(folders / "bench"),
        "--against",
        f"web={folders / 'corpus'}",
        "--encoder",
        "pixels",
        "--nearest",
        "1",
        "--alpha",
        "0.05",
        "--control",
        f"clean={folders / 'clean'}:in-domain",
        "--workers",
        "1",
        "--out",
        str(out),
    )
    return out


def test_planted_copies_are_near_and_the_claim_names_them(run: Path) -> None:
    claims = {one["id"]: one for one in json.loads((run / "claims.json").read_text())["claims"]}
    assert claims["overlap/web"]["status"] == "survives"
    near = claims["nearness/web"]
    assert near["status"] == "qualified"  # the control is too small to say more
    assert "4 images are proven" in near["sentence"]
    found = json.loads((run / "calibration.json").read_text())
    assert found["schema_version"] == 1
    (one,) = found["calibrations"]
    assert 4 <= len(one["flagged"]) <= 6  # the four, and what α = .05 flags of eight others
    assert one["null"]["images"] == 150
    (control,) = one["controls"]
    assert (control["images"], control["at_alpha"]["fires"]) == (60, False)


def test_quantiles_of_benchmark_null_and_control_stand_side_by_side(run: Path) -> None:
    import polars as pl

    (one,) = json.loads((run / "calibration.json").read_text())["calibrations"]
    nearest = pl.read_parquet(run / "tables/nearest.parquet")
    sets = {"benchmark": one["benchmark"], "null": one["null"], "control": one["controls"][0]}
    for role, told in sets.items():
        values = np.sort(nearest.filter(pl.col("role") == role)["similarity"].to_numpy())
        found = told["similarity"]
        assert list(found) == ["min", "p5", "median", "p95", "max"]
        assert (found["min"], found["max"]) == (values[0], values[-1])
        assert found["median"] == pytest.approx(np.median(values))
        assert found["p5"] == pytest.approx(np.percentile(values, 5))
        assert found["p95"] == pytest.approx(np.percentile(values, 95))
    # Copies were planted in the corpus, clean pictures were not: it shows in the upper end.
    assert sets["benchmark"]["similarity"]["max"] > sets["control"]["similarity"]["max"]
    page = (run / "report.html").read_text()
    table = page[page.index("the nearest corpus picture") :].split("</table>")[0]
    for told in sets.values():
        for value in told["similarity"].values():
            assert f">{value:.4f}</td>" in table
    assert "in domain control" in table and "by construction" in table


def test_sets_without_pictures_have_no_quantiles() -> None:
    from heldout.overlap.nearness.calibration import quantiles_of

    assert quantiles_of([]) is None
    assert quantiles_of([0.0, 1.0, 0.5]) == (
        0.0,
        pytest.approx(0.05),
        0.5,
        pytest.approx(0.95),
        1.0,
    )


def test_control_pictures_that_control_nothing_are_listed(run: Path) -> None:
    import polars as pl

    dropped = pl.read_parquet(run / "tables/dropped.parquet")
    mine = dropped.filter(pl.col("stage") == "calibration")
    assert dict(mine.select("id", "reason").iter_rows()) == {
        "in-the-corpus.png": "is in the corpus",
        "in-the-benchmark.png": "in the benchmark itself",
    }


def test_the_report_draws_it_and_rebuilds_it_from_the_run_alone(run: Path, folders: Path) -> None:
    before = {
        name: (run / name).read_bytes()
        for name in ("calibration.json", "claims.json", "findings.json", "report.html")
    }
    (folders / "corpus").rename(folders / "gone")
    try:
        call("report", str(run))
    finally:
        (folders / "gone").rename(folders / "corpus")
    assert {name: (run / name).read_bytes() for name in before} == before
    assert (run / "figures/nearness-1-histogram.svg").read_text().startswith("<svg")
    page = before["report.html"].decode()
    measured = any(study.encoder == PixelsEncoder.identity for study in published().studies)
    assert page.count('tabindex="0"><svg') == 1 + measured  # and copies by transform
    assert "to the nearest corpus" in page
    assert "by level α" not in page  # a curve of one point shows nothing
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_run_without_an_encoder_forgets_its_calibration(folders: Path, run: Path) -> None:
    out = folders / "again"
    flags = (
        "overlap",
        "--no-text",
        str(folders / "bench"),
        "--against",
        f"web={folders / 'clean'}",
        "--workers",
        "1",
        "--out",
        str(out),
    )
    with_encoder = call(*flags, "--encoder", "pixels", "--nearest", "1")
    assert [one["id"] for one in with_encoder["claims"]] == ["overlap/web", "nearness/web"]
    without = call(*flags, "--replace")
    assert [one["id"] for one in without["claims"]] == ["overlap/web"]
    assert json.loads((out / "calibration.json").read_text())["calibrations"] == []


def test_a_second_encoder_is_calibrated_by_itself_and_compared(folders: Path) -> None:
    torch = pytest.importorskip("torch", reason="the second encoder is a TorchScript file")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 8, 8), torch.nn.Flatten()).eval()
    file = folders / "small.pt"
    torch.jit.trace(network, torch.zeros(1, 3, 64, 64)).save(str(file))
    out = folders / "two"
    found = call(
        "overlap",
        str(folders / "bench"),
        "--against",
        f"web={folders / 'corpus'}",
        "--encoder",
        "pixels",
        "--nearest",
        "1",
        "--alpha",
        "0.05",
        "--workers",
        "1",
        "--no-text",
        "--second-encoder",
        f"torchscript:{file}#trust=yes,size=64",
        "--out",
        str(out),
    )
    ids = [one["id"] for one in found["claims"]]
    assert ids[:2] == ["overlap/web", "nearness/web"]
    assert ids[2].startswith("nearness/web/torchscript:small.pt@")
    first, second = json.loads((out / "calibration.json").read_text())["calibrations"]
    assert first["encoder"] != second["encoder"]
    assert first["threshold"]["value"] != second["threshold"]["value"]
    page = (out / "report.html").read_text()
    assert "encoders agree?" in page
    tests = [one for one in found["findings"] if one["p"] is not None]
    assert len(tests) == 4
    assert all(one["p_adjusted"] >= one["p"] for one in tests)  # one family, both encoders


def test_calibration_flags_without_an_encoder_are_refused(folders: Path) -> None:
    with pytest.raises(InputError, match="^--null: .* --encoder"):
        call(
            "overlap",
            str(folders / "bench"),
            "--against",
            f"web={folders / 'corpus'}",
            "--out",
            str(folders / "z"),
            "--null",
            str(folders / "clean"),
        )


@pytest.mark.parametrize("text", ["clean", "a=b", "a=b:near", "a=b:"])
def test_a_control_that_does_not_say_its_domain_is_refused(folders: Path, text: str) -> None:
    with pytest.raises(InputError, match="expected NAME=SOURCE:in-domain"):
        call(
            "overlap",
            str(folders / "bench"),
            "--against",
            f"web={folders / 'corpus'}",
            "--encoder",
            "pixels",
            "--control",
            text,
            "--out",
            str(folders / "no"),
        )


def test_the_matrix_of_runs(folders: Path, run: Path) -> None:
    out = folders / "matrix"
    found = call("matrix", str(run), "--out", str(out))
    cells = {(one["unit"], one["kind"]): one for one in found["cells"]}
    copies = cells["images", "copy"]
    assert (copies["leaked"], copies["n"], copies["scope"]) == (4, 12, "inter")
    assert copies["low"] < copies["rate"] < copies["high"]
    assert (
        cells["images", "same image"]["leaked"] + cells["images", "transformed copy"]["leaked"] == 4
    )
    page = (out / "matrix.html").read_text()
    assert page.count("<svg") == 4
    assert json.loads((out / "matrix.json").read_text()) == found
    assert (out / "figures/matrix-same-image.svg").read_text().startswith("<svg")
    intra = call("matrix", str(run), "--dataset", "web=x", "--dataset", "bench=x")
    assert {one["scope"] for one in intra["cells"]} == {"intra"}
    with pytest.raises(InputError, match="'bench' with 'web'"):
        call("matrix", str(run), str(run))
    with pytest.raises(InputError, match="^--dataset: who: "):
        call("matrix", str(run), "--dataset", "who=x")
