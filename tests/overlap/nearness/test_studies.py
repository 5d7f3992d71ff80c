"""Slices of one volume: a study counts once in a null, and together in a benchmark or a control."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from heldout.benchmark import Benchmark, Example
from heldout.corpus import CorpusItem, Shard
from heldout.errors import InputError
from heldout.image import FileOnDisk, ImageRef, InlineBytes
from heldout.overlap.images.encoder import Encoder
from heldout.overlap.nearness._studies import joined, studies_of, study_of
from heldout.overlap.nearness.calibration import calibrations
from heldout.overlap.nearness.measure import CalibrationPlan, measure, write_measured
from heldout.overlap.nearness.nearest import ControlSet
from heldout.overlap.texts._fields import TextSource, item_sources
from heldout.store import Run, dropped_table, make_table

SIDE, SLICES = 4, 10


class Shades(Encoder):
    """Every pixel is a coordinate."""

    identity, dimension = "shades | test", SIDE * SIDE

    def prepare(self, image: Image.Image) -> Any:
        return np.asarray(image.convert("L"), np.float32).ravel() - 128

    def _forward(self, images: Any) -> Any:
        return images / np.linalg.norm(images, axis=1, keepdims=True)


@dataclass
class Slices:
    """Volumes of slices that are nearly alike, as a corpus."""

    pixels: NDArray[np.uint8]
    column: str = "patient_id"
    name: str = "volumes"
    source: str = "volumes"
    reader: str = "test"

    def shards(self) -> Iterator[Shard]:
        yield Shard(0, "0", "key", None)

    def count_shards(self) -> int | None:
        return 1

    def read(self, shard: Shard) -> Iterator[CorpusItem]:
        for number, pixels in enumerate(self.pixels):
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "PNG")
            yield CorpusItem(
                f"c{number}",
                image=ImageRef(f"{number}.png", InlineBytes(buffer.getvalue(), f"row {number}")),
                metadata={self.column: f"p{number // SLICES}"} if self.column else {},
            )


@dataclass
class Vectors:
    matrix: NDArray[np.float32]
    prefix: str
    identity: str = Shades.identity
    groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self.groups = np.arange(len(self.matrix))
        self.ids = self.pictures = [f"{self.prefix}{index}" for index in range(len(self.matrix))]

    @property
    def rows(self) -> Any:
        return [self.matrix.astype(np.float16)] if self.prefix == "c" else self.matrix


def volumes(studies: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    middle = rng.integers(10, 245, (studies, 1, SIDE, SIDE))
    slices = middle + rng.integers(-3, 4, (studies, SLICES, SIDE, SIDE))
    return slices.reshape(-1, SIDE, SIDE).astype(np.uint8)


def vectors(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    rows = pixels.reshape(len(pixels), -1).astype(np.float32) - 128
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def calibrated(
    path: Path,
    corpus: Slices,
    plan: CalibrationPlan,
    *,
    studies: dict[str, str] | None = None,
    clusters: int = 1,
) -> Any:
    benchmark = Vectors(vectors(volumes(4, np.random.default_rng(9))), "b")
    run = Run.create(path)
    run.write_table("dropped", dropped_table([]))
    corpus_rows = Vectors(vectors(corpus.pixels), "c")
    measured = measure(
        run, "web", "f", corpus_rows, benchmark, plan, Shades(), studies=studies, quiet=True
    )
    write_measured(run, [measured])
    items = [
        {
            "benchmark_id": name,
            "cluster": f"k{number // clusters}",
            "question": "?",
            "image_digests": [name],
        }
        for number, name in enumerate(benchmark.ids)
    ]
    run.write_table("items", make_table("items", items))
    (calibration,) = calibrations(
        run.frame("items"), run.frame("nearest"), run.manifest()["calibration"]
    )
    return calibration


def test_a_corpus_against_itself_has_one_picture_of_each_study(tmp_path: Path) -> None:
    corpus = Slices(volumes(60, np.random.default_rng(0)))
    plan = CalibrationPlan(alpha=0.1)
    slices = calibrated(tmp_path / "slices", corpus, plan)
    studies = calibrated(tmp_path / "studies", corpus, plan, studies=studies_of(corpus))
    assert len(slices.null) > 300 and len(studies.null) == 60
    # Slices find each other: nothing but a copy could be nearer than τ.
    assert slices.null.similarities.min() > 0.98 > studies.null.similarities.max()
    assert any("(60 are named)" in n for n in studies.notes)
    assert not any("are named)" in note for note in slices.notes)


def test_a_reference_null_has_one_picture_of_each_study(tmp_path: Path) -> None:
    corpus = Slices(volumes(30, np.random.default_rng(0)))
    null = Slices(volumes(40, np.random.default_rng(1)), column="case")
    by_chance = calibrated(tmp_path / "a", corpus, CalibrationPlan(alpha=0.1, null=null))
    by_case = calibrated(
        tmp_path / "b", corpus, CalibrationPlan(alpha=0.1, null=null, column="case")
    )
    assert (len(by_chance.null), len(by_case.null)) == (400, 40)
    with pytest.raises(InputError, match=r"^cluster_column 'ward': .*\bvolumes\b"):
        calibrated(tmp_path / "c", corpus, CalibrationPlan(null=null, column="ward"))


def test_pictures_of_one_study_in_a_control_count_once(tmp_path: Path) -> None:
    corpus = Slices(volumes(60, np.random.default_rng(0)))
    control = ControlSet(Slices(volumes(20, np.random.default_rng(1))), "in domain")
    plan = CalibrationPlan(alpha=0.1, controls=(control,))
    calibration = calibrated(tmp_path / "run", corpus, plan, studies=studies_of(corpus))
    (measured,) = calibration.controls
    assert len(set(measured.nearest.related)) == 20 < len(measured.nearest) == 200


def test_the_benchmarks_clusters_widen_its_test(tmp_path: Path) -> None:
    corpus = Slices(volumes(60, np.random.default_rng(0)))
    plan = CalibrationPlan(alpha=0.1)
    studies = studies_of(corpus)
    alone = calibrated(tmp_path / "a", corpus, plan, studies=studies)
    together = calibrated(tmp_path / "b", corpus, plan, studies=studies, clusters=20)
    assert together.design_effect >= 20 > alone.design_effect


def test_a_column_that_is_not_there_is_named() -> None:
    corpus = Slices(volumes(2, np.random.default_rng(0)), column="case")
    assert studies_of(corpus) == {}
    assert len(set(studies_of(corpus, "case").values())) == 2
    with pytest.raises(InputError, match=r"^cluster_column 'ward'.*: case"):
        studies_of(corpus, "ward")


@pytest.mark.parametrize(
    ("metadata", "study"),
    [
        ({"SeriesInstanceUID": "1.2", "StudyInstanceUID": "1"}, "studyinstanceuid 1"),
        ({"Patient ID": "7", "study_id": "1"}, "patientid 7"),
        ({"patient_id": "", "volume_id": 3}, "volumeid 3"),
        ({"page": "3"}, ""),
    ],
)
def test_the_widest_group_that_is_named(metadata: dict[str, Any], study: str) -> None:
    assert study_of(CorpusItem("x", metadata=metadata)) == study


def test_places_are_joined_by_either_label() -> None:
    assert joined(["a", "a", "b", "c", ""], ["", "x", "x", "", ""]).tolist() == [0, 0, 0, 3, 4]


def dicom(path: Path, patient: str, study: str, series: str) -> ImageRef:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.SOPClassUID = file.file_meta.MediaStorageSOPClassUID = CTImageStorage
    file.SOPInstanceUID = file.file_meta.MediaStorageSOPInstanceUID = f"{series}.{len(path.name)}"
    file.PatientID, file.StudyInstanceUID, file.SeriesInstanceUID = patient, study, series
    file.Rows = file.Columns = 4
    file.BitsAllocated = file.BitsStored = 8
    file.HighBit, file.PixelRepresentation, file.SamplesPerPixel = 7, 0, 1
    file.PhotometricInterpretation = "MONOCHROME2"
    shades = np.random.default_rng(len(path.name)).integers(0, 255, 16, dtype=np.uint8)
    file.PixelData = shades.tobytes()
    pydicom.dcmwrite(path, file, enforce_file_format=True)
    return ImageRef(path.name, FileOnDisk(str(path)))


def test_ids_in_dicom_files_are_used(tmp_path: Path) -> None:
    first = dicom(tmp_path / "a.dcm", "", "1.2.34567", "1.2.34567.1")
    second = dicom(tmp_path / "ab.dcm", "ANONYMOUS", "1.2.34567", "1.2.34567.2")
    third = dicom(tmp_path / "abc.dcm", "ANONYMOUS", "1.2.99999", "1.2.99999.1")
    items = [CorpusItem(ref.name, image=ref) for ref in (first, second, third)]
    # A patient called anonymous is nobody: the study joins the two slices.
    assert [study_of(item) for item in items] == [
        "study 1.2.34567",
        "study 1.2.34567",
        "study 1.2.99999",
    ]
    examples = [Example(id=ref.name, images=(ref,)) for ref in (first, second, third)]
    clusters = Benchmark(name="b", examples=tuple(examples)).clusters
    assert clusters[0] == clusters[1] != clusters[2]
    assert TextSource("study", "1.2.34567") in item_sources(items[0])


def test_only_ids_that_can_be_recognised_elsewhere_are_a_source() -> None:
    known = CorpusItem("x", metadata={"PatientID": "P10023", "study_id": "17", "page": "10023"})
    assert item_sources(known) == {TextSource("patient", "p10023")}
