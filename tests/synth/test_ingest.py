"""Ingest: figures of articles as they are distributed, and files that somebody made to do harm."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from heldout.documents import MOST_DEPTH, MOST_HELD, XmlError, parse_xml, xml_elements
from heldout.errors import InputError
from heldout.report.synthesis import read_facts
from heldout.store import Dropped
from heldout.synth import PaperFigure, SynthSettings, synth
from heldout.synth.ingest import read_figures
from heldout.synth.ingest._jats import (
    copyright_notice,
    read_article,
    read_licence,
)

Picture = Callable[..., bytes]
CC_BY = '<license xlink:href="https://creativecommons.org/licenses/by/4.0/"/>'


def article(figures: str, body: str = "", licence: str = CC_BY, number: str = "1234567") -> bytes:
    return f"""<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS 1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink"><front><article-meta>
<article-id pub-id-type="pmc">{number}</article-id>
<title-group><article-title>On <italic>figures</italic></article-title></title-group>
<contrib-group><contrib><name><surname>Ada</surname></name></contrib></contrib-group>
<pub-date><year>2020</year></pub-date><permissions>{licence}</permissions></article-meta></front>
<body>{body}{figures}</body></article>""".encode()


def fig(
    name: str, caption: str = "<p>A scan.</p>", graphics: str | None = None, rest: str = ""
) -> str:
    graphics = f'<graphic xlink:href="{name}.png"/>' if graphics is None else graphics
    shown = f"<caption>{caption}</caption>" if caption else ""
    return f'<fig id="{name}"><label>Figure {name[-1]}</label>{shown}{graphics}{rest}</fig>'


def tar(path: Path, members: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as package:  # type: ignore[call-overload]
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            package.addfile(entry, io.BytesIO(data))
    return path


def read(source: Path, **settings: Any) -> tuple[list[PaperFigure], list[Dropped]]:
    found = list(read_figures(SynthSettings(source=str(source), **settings), source.parent))
    figures = [one for one in found if isinstance(one, PaperFigure)]
    return figures, [one for one in found if isinstance(one, Dropped)]


# Real articles


def test_real_articles_give_their_figures_with_mentions_and_licences(shared_data: Path) -> None:
    figures, dropped = read(shared_data / "pmc_articles")
    assert len(figures) == 99 and len({figure.article for figure in figures}) == 10
    assert sum(bool(figure.references) for figure in figures) == 97
    assert Counter(figure.licence for figure in figures) == {
        "CC BY 4.0": 86,
        "CC0": 8,
        "unknown": 5,
    }
    assert {one.reason for one in dropped} == {
        "missing image"
    }  # seven articles come without images
    first = next(one for one in figures if one.article == "10.7554/eLife.46793")
    assert "Figure 1" in first.label and first.attribution.endswith("10.7554/eLife.46793")
    assert first.images[0].width > 100 and all(len(text) > 40 for text in first.references)


def test_articles_without_an_address_still_name_their_licence(shared_data: Path) -> None:
    names = {
        path.name: article.licence
        for path in sorted((shared_data / "pmc_articles/xml_only").glob("*.nxml"))
        if (article := read_article(parse_xml(path.read_bytes()))) is not None
    }
    # "Creative Commons Attribution License"
    by = ("CC BY", "https://creativecommons.org/licenses/by/", True)
    assert names["pone.0046493.nxml"][:3] == by
    assert names["1471-2180-11-174.nxml"].name == "CC BY 2.0"
    assert names["ehp-116-1694.nxml"].name == "public domain"


# The shapes of an article


def test_a_figure_has_caption_mentions_and_several_images(tmp_path: Path, picture: Picture) -> None:
    body = (
        '<p>See <xref ref-type="fig" rid="f1">Fig. 1</xref> for the lesion.</p>'
        '<p>No figure here.</p><p>Again <xref ref-type="fig" rid="f1">1A</xref>.</p>'
    )
    graphics = '<graphic xlink:href="a"/><graphic xlink:href="b.png"/>'
    two = fig("f1", "<title>Lesion.</title><p>(A) Axial. (B) Sagittal.</p>", graphics)
    doi = b'</article-id><article-id pub-id-type="doi">10.5555/on.1</article-id>'
    written = article(two, body).replace(b"</article-id>", doi, 1)
    (tmp_path / "x.nxml").write_bytes(written)
    for number, name in enumerate(("a.png", "b.png")):
        (tmp_path / name).write_bytes(picture(number, (40, 30)))
    (figure,), dropped = read(tmp_path)
    assert not dropped
    assert (figure.id, figure.article) == ("PMC1234567/f1", "PMC1234567")
    assert figure.caption == "Lesion. (A) Axial. (B) Sagittal."
    assert figure.references == ("See Fig. 1 for the lesion.", "Again 1A.")
    assert [(image.width, image.height) for image in figure.images] == [(40, 30), (40, 30)]
    assert figure.attribution == "Ada. On figures. 2020. PMC1234567. doi:10.5555/on.1"


def test_a_group_with_one_caption_is_one_figure(tmp_path: Path, picture: Picture) -> None:
    parts = fig("f1", "") + fig("f2", "")
    group = f'<fig-group id="g"><caption><p>Two views.</p></caption>{parts}</fig-group>'
    body = '<p>Look at <xref ref-type="fig" rid="f2">1B</xref>.</p>'
    (tmp_path / "x.xml").write_bytes(article(group + fig("f3"), body))
    for number in (1, 2, 3):
        (tmp_path / f"f{number}.png").write_bytes(picture(number, (40, 30)))
    (both, alone), _ = read(tmp_path)
    assert (both.caption, len(both.images), both.references) == ("Two views.", 2, ("Look at 1B.",))
    assert alone.id == "PMC1234567/f3"


def test_what_cannot_be_used_is_dropped_with_its_reason(tmp_path: Path, picture: Picture) -> None:
    many = "".join(f'<graphic xlink:href="m{number}"/>' for number in range(7))
    figures = (
        fig("f1", "") + fig("f2", graphics="") + fig("f3") + fig("f4") + fig("f5", graphics=many)
    )
    (tmp_path / "x.xml").write_bytes(article(figures))
    (tmp_path / "f4.png").write_bytes(picture(0, (400, 27)))
    for number in range(7):
        (tmp_path / f"m{number}.png").write_bytes(picture(number, (40, 30)))
    run = tmp_path / "run"
    with pytest.raises(InputError, match="ingest dropped all"):
        synth(source=str(tmp_path), stages=("ingest", "select"), out=run, quiet=True)
    made = synth(source=str(tmp_path), stages=("ingest",), out=run, quiet=True)
    reasons = {row["id"][-2:]: row["reason"] for row in made.dropped.to_dicts()}
    assert reasons == {
        "f1": "no caption",
        "f2": "no image",
        "f3": "missing image",
        "f4": "image too small",
        "f5": "too many images",
    }
    _, dropped = read(tmp_path, shortest_side=27)
    assert "image too small" not in {one.reason for one in dropped}


def test_a_source_without_figures_says_what_it_held(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_bytes(b"<article><p></article>")
    with pytest.raises(InputError, match="unreadable XML 1"):
        synth(source=str(tmp_path), stages=("ingest",), out=tmp_path / "run", quiet=True)
    (tmp_path / "x.xml").rename(tmp_path / "x.pdf")
    with pytest.raises(InputError, match=r"captions\.tsv.*\.txt"):
        synth(source=str(tmp_path), stages=("ingest",), out=tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="does not exist"):
        synth(source=str(tmp_path / "no"), stages=("ingest",), out=tmp_path / "other", quiet=True)


# Licences


@pytest.mark.parametrize(
    ("text", "name", "allowed"),
    [
        ("https://creativecommons.org/licenses/by-nc-nd/4.0/", "CC BY-NC-ND 4.0", False),
        ("http://creativecommons.org/licenses/by-nc-sa/3.0", "CC BY-NC-SA 3.0", True),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0", True),
        ("http://creativecommons.org/licenses/sampling+/1.0/", "CC SAMPLING+ 1.0", False),
        ("CC BY", "CC BY", True),
        ("CC BY-ND", "CC BY-ND", False),
        ("NO-CC CODE", "unknown", False),
        ("under the Creative Commons Attribution License, which permits", "CC BY", True),
        (
            "Creative Commons Attribution-NonCommercial-NoDerivatives License 4.0",
            "CC BY-NC-ND 4.0",
            False,
        ),
        ("Creative Commons Attribution Non-Commercial Share Alike 3.0", "CC BY-NC-SA 3.0", True),
        ("CC BY / CC BY-ND", "CC BY-ND", False),  # of several the most restrictive
        ("CC BY-NC 4.0, text CC BY 4.0", "CC BY-NC 4.0", True),
        (
            "https://creativecommons.org/licenses/by/4.0/ (CC BY-NC-ND 4.0)",
            "CC BY-NC-ND 4.0",
            False,
        ),
        ("CC BY 4.0; data: https://creativecommons.org/publicdomain/zero/1.0/", "CC BY 4.0", True),
        ("CC BY, https://creativecommons.org/licenses/by/4.0/", "CC BY 4.0", True),
        ("lies in the public domain", "public domain", True),
        ("© 2019 The Publisher. All rights reserved.", "unknown", False),
        ("", "unknown", False),
    ],
)
def test_licences_are_read_from_addresses_codes_and_words(
    text: str, name: str, allowed: bool
) -> None:
    found = read_licence(text)
    assert (found.name, found.redistributable) == (name, allowed)
    if name.startswith("CC "):  # the code alone gives the address
        code, _, version = name[3:].lower().partition(" ")
        tail = f"{version}/" if version else ""
        assert found.url == f"https://creativecommons.org/licenses/{code}/{tail}"


@pytest.mark.parametrize(
    ("caption", "owned"),
    [
        ("Knee. © 2019 Springer Nature", True),
        ("Knee (c) 2007 Smith", True),
        ("Knee. Copyright Elsevier, 2012.", True),
        ("Knee. Reproduced with permission from Smith et al.", True),
        ("Knee; by permission of Oxford University Press.", True),
        ("(A) Axial and (C) sagittal view", False),
        ("Shown with the permission of the patient", False),
        ("Copyright-free drawing", False),
        ("Adapted from Smith with permission under CC BY 4.0.", False),
    ],
)
def test_captions_that_name_another_owner(caption: str, owned: bool) -> None:
    assert bool(copyright_notice(caption)) is owned


def test_a_borrowed_figure_is_not_covered_by_the_licence_of_its_article(
    tmp_path: Path, picture: Picture
) -> None:
    owned = "<permissions><copyright-statement>© Elsevier 2001</copyright-statement></permissions>"
    words = "<p>Scan. Reproduced from Smith et al. with permission from Elsevier.</p>"
    figures = fig("f1", rest=owned) + fig("f2", words) + fig("f3")
    (tmp_path / "x.xml").write_bytes(article(figures))
    for number in (1, 2, 3):
        (tmp_path / f"f{number}.png").write_bytes(picture(number, (40, 30)))
    keep = synth(source=str(tmp_path), stages=("ingest",), out=tmp_path / "run", quiet=True)
    assert keep.frame("ingest")["id"].to_list() == ["PMC1234567/f3"]
    assert keep.dropped["reason"].to_list() == ["licence", "third-party copyright"]
    assert (
        "© Elsevier 2001" in keep.dropped["detail"][0]
    )  # what was read, where no licence is known
    every = synth(
        source=str(tmp_path), stages=("ingest",), any_licence=True, out=tmp_path / "all", quiet=True
    )
    assert len(every.frame("ingest")) == 3


# XML made to do harm


def _nested(depth: int) -> bytes:
    return b"<a>" * depth + b"</a>" * depth


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><a>&y;</a>', "declares 'x'"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares 'x'"),
        (b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x.dtd">%x;]><a/>', "declares"),
        (b'<!DOCTYPE a [<!ATTLIST a b CDATA "long">]><a><a/></a>', "declares 'a'"),
        (b"<!DOCTYPE a [<!ELEMENT a (b|c)*>]><a/>", "declares 'a'"),
        (b"<a>" + b"<b/>" * MOST_HELD + b"</a>", "more than"),
        (_nested(MOST_DEPTH + 1), "deep"),
        (b"<a><b></a>", "well-formed"),
        (b"", "well-formed"),
        (b"\x00\x01\x02", "well-formed"),
        (b'<?xml version="1.0" encoding="no-such"?><a/>', "encoding"),
    ],
)
def test_hostile_xml_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(XmlError, match=says):
        parse_xml(data)


def test_a_token_of_megabytes_takes_linear_time() -> None:
    """Expat 2.5 looks at an unfinished token again with every piece; the pieces grow with it."""
    sizes: list[int] = []

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            sizes.append(size or 0)
            return super().read(size)

    (root,) = xml_elements(Counted(b'<a b="' + b"x" * (16 << 20) + b'"/>'))
    assert len(root.get("b") or "") == 16 << 20
    assert len(sizes) < 16


def test_harmless_xml_is_read_without_its_dtd() -> None:
    root = parse_xml(b'<!DOCTYPE article SYSTEM "x.dtd"><article>5&nbsp;&mu;m</article>')
    assert root.text == "5\N{NO-BREAK SPACE}μm"
    assert parse_xml(_nested(MOST_DEPTH)).tag == "a"


def test_a_bad_document_stops_no_other(tmp_path: Path, picture: Picture) -> None:
    for name, data in (("a", b'<!DOCTYPE a [<!ENTITY x "y">]><a/>'), ("b", article(fig("f1")))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.nxml").write_bytes(data)
    (tmp_path / "b/f1.png").write_bytes(picture(1, (40, 30)))
    tar(tmp_path / "PMC2.tar.gz", {"PMC2/f1.png": picture(2, (40, 30))})
    made = synth(source=str(tmp_path), stages=("ingest",), out=tmp_path / "run", quiet=True)
    (step,) = made.funnel.steps  # a file is no figure
    assert (step.entered, step.left, step.reasons) == (1, 1, {})
    assert step.files == {"unreadable XML": 1, "package without XML": 1}
    assert sorted(made.dropped["reason"]) == sorted(step.files)
    found = read_facts(made.run).steps[0]
    assert found.left == 1 and sum(count for _, count in found.lost) == 2


# Packages


def test_a_package_is_read_where_it_is(tmp_path: Path, picture: Picture) -> None:
    folder = tmp_path / "what!now"
    folder.mkdir()
    members = {"PMC1/x.nxml": article(fig("f1")), "PMC1/f1.png": picture(1, (40, 30))}
    tar(folder / "PMC1.tar.gz", members)
    made = synth(
        source=str(folder),
        stages=("ingest", "select"),
        labels=("all",),
        out=tmp_path / "run",
        quiet=True,
    )
    (row,) = made.figures.to_dicts()
    assert (tmp_path / "run" / row["images"][0]["path"]).read_bytes() == members["PMC1/f1.png"]


def test_names_and_links_of_a_package_lead_nowhere(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "in").mkdir()
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(9, (40, 30)))
    graphics = [f'<graphic xlink:href="{name}"/>' for name in ("../../secret.png", "link.png")]
    data = article(fig("f1", graphics=graphics[0]) + fig("f2", graphics=graphics[1]))
    with tarfile.open(tmp_path / "in/PMC1.tar.gz", "w:gz") as package:
        for name, content in (("x.nxml", data), ("../../evil.png", picture(2, (40, 30)))):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        package.addfile(link)
    figures, dropped = read(tmp_path / "in")
    assert not figures
    assert {one.reason for one in dropped} == {"missing image"}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["PMC1.tar.gz", "in", "secret.png"]


def test_of_two_members_of_one_name_the_one_that_was_looked_at_is_kept(
    tmp_path: Path, picture: Picture
) -> None:
    old, new = picture(1, (40, 30)), picture(2, (40, 30))
    with tarfile.open(tmp_path / "PMC1.tar.gz", "w:gz") as package:
        for name, content in (("x.nxml", article(fig("f1"))), ("f1.png", old), ("f1.png", new)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))
    made = synth(
        source=str(tmp_path),
        stages=("ingest", "select"),
        labels=("all",),
        out=tmp_path / "run",
        quiet=True,
    )
    (row,) = made.figures.to_dicts()
    assert (tmp_path / "run" / row["images"][0]["path"]).read_bytes() == new


@pytest.mark.parametrize("kind", ["cut", "garbled", "no archive"])
def test_a_broken_package_is_dropped(tmp_path: Path, picture: Picture, kind: str) -> None:
    members = {"x.nxml": article(fig("f1")), "f1.png": picture(1, (200, 200))}
    path = tar(tmp_path / "PMC1.tar.gz", members)
    data = bytearray(path.read_bytes())
    if kind == "garbled":
        data[200:260] = bytes(60)
    path.write_bytes({"cut": data[: len(data) // 2], "no archive": b"hello"}.get(kind, data))
    figures, dropped = read(tmp_path)
    assert not figures and dropped[-1].reason.startswith("unreadable")


# Biomedica


def _sample(key: str, image: bytes, **fields: Any) -> dict[str, bytes]:
    return {f"{key}.jpg": image, f"{key}.json": json.dumps(fields).encode()}


def test_biomedica_shards_are_grouped_by_caption(tmp_path: Path, picture: Picture) -> None:
    captions = [
        {"image_id": "1_f1", "caption": "CT of the chest."},
        {"image_id": "1_f1b", "caption": "CT of the chest."},
        {"image_id": "1_f2", "caption": "No caption found"},
    ]
    shared = {
        "image_set": captions,
        "article_accession_id": "PMC1",
        "article_license": "CC BY-NC",
        "article_citation": "Trials. 2001",
        "article_title": "Chests.",
        "image_primary_label": ["Clinical Imaging"],
        "image_secondary_label": ["computerized tomography"],
    }
    context = {"1_f1": ["Figure 1 shows a nodule."], "1_f1b": ["Figure 1 shows a nodule."]}
    images = {name: picture(n, (40, 30), "JPEG") for n, name in enumerate(("a", "b", "c", "d"))}
    members = (
        _sample("s/a", images["a"], image_cluster_id="1_f1", image_context=context, **shared)
        | _sample("s/b", images["b"], image_cluster_id="1_f1b", image_context=[context], **shared)
        | _sample("s/c", images["c"], image_cluster_id="1_f2", **shared)
        | {"s/d.jpg": images["d"], "s/d.json": b"{not json"}
        | {"s/e.json": b"{}"}
    )
    path = tar(tmp_path / "shard.tar", members, "w")
    (figure,), dropped = read(path)
    assert (figure.id, figure.caption, len(figure.images)) == ("PMC1/1_f1", "CT of the chest.", 2)
    assert figure.references == ("Figure 1 shows a nodule.",)
    assert (figure.primary, figure.secondary) == ("Clinical Imaging", "computerized tomography")
    assert figure.licence == "CC BY-NC" and figure.redistributable
    assert figure.attribution == "Trials. 2001. Chests. PMC1"
    assert [one.reason for one in dropped] == ["no caption", "unreadable JSON", "no image"]
    _, dropped = read(path, most_images=1)
    assert "too many images" in [one.reason for one in dropped]


# The same figure twice


def test_a_figure_that_comes_twice_is_kept_once(tmp_path: Path, picture: Picture) -> None:
    """A package given twice, the article as XML and in a shard, re-encoded and smaller."""
    source = tmp_path / "in"
    source.mkdir()
    smooth = Image.linear_gradient("L").resize((120, 90)).convert("RGB")
    wave = smooth.transpose(Image.Transpose.ROTATE_180)
    first, other = (_encoded(image, "PNG") for image in (smooth, wave))
    words = "<p>A chest CT.</p>"
    package = {
        "PMC1/x.nxml": article(fig("f1", words) + fig("f2", words)),
        "PMC1/f1.png": first,
        "PMC1/f2.png": other,
    }
    tar(source / "a.tar.gz", package)
    # Another id and caption, the same bytes; and one picture saved again, with the caption in other blanks.
    other_words = "<p>An axial section.</p>"
    renamed = {**package, "PMC1/x.nxml": article(fig("f1", other_words), number="7654321")}
    tar(source / "b.tar.gz", renamed)
    shared = {"article_accession_id": "PMC9", "article_license": "CC BY", "caption": "A  chest ct."}
    small = _encoded(smooth.resize((80, 60)), "JPEG")
    tar(source / "c.tar", _sample("s/a", small, image_cluster_id="9_f1", **shared), "w")
    made = synth(source=str(source), stages=("ingest",), out=tmp_path / "run", quiet=True)
    # Two pictures with one caption are two figures.
    assert made.frame("ingest")["id"].to_list() == ["PMC1234567/f1", "PMC1234567/f2"]
    told = {row["id"]: (row["reason"], row["detail"][-13:]) for row in made.dropped.to_dicts()}
    same = ("duplicate figure", "PMC1234567/f1")
    assert told == {"PMC7654321/f1": same, "PMC9/9_f1": same}


def test_another_figure_under_a_known_id_is_not_called_the_same(
    tmp_path: Path, picture: Picture
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    second = '<graphic xlink:href="f2.png"/>'
    twice = article(fig("f1", "<p>A chest CT.</p>") + fig("f1", "<p>A brain MRI.</p>", second))
    tar(
        source / "a.tar.gz",
        {"a/x.nxml": twice, "a/f1.png": picture(1, (60, 50)), "a/f2.png": picture(2, (60, 50))},
    )
    made = synth(source=str(source), stages=("ingest",), out=tmp_path / "run", quiet=True)
    assert made.frame("ingest")["caption"].to_list() == ["A chest CT."]
    (row,) = made.dropped.to_dicts()
    assert row["reason"] == "duplicate id" and "another figure" in row["detail"]


def _encoded(image: Image.Image, format: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format)
    return buffer.getvalue()


_KILLED = """
import os, signal, sys
from heldout.synth import synth
from heldout.synth.ledger import StageWriter
keep, seen = StageWriter.keep, []
def dying(self, row, **how):
    keep(self, row, **how)
    self.flush()
    seen.append(row)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
StageWriter.keep = dying
synth(source=sys.argv[1], stages=("ingest",), out=sys.argv[2], quiet=True)
"""


def test_a_killed_ingest_leaves_no_half_table(tmp_path: Path, picture: Picture) -> None:
    source, run = tmp_path / "in", tmp_path / "run"
    source.mkdir()
    rows = []
    for number in range(6):
        (source / f"{number}.png").write_bytes(picture(number, (40, 30)))
        rows.append({"image": f"{number}.png", "caption": f"CT {number}.", "licence": "CC0"})
    (source / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(source), str(run)], check=False)
    assert killed.returncode != 0 and not (run / "synth/ingest.parquet").exists()
    made = synth(source=str(source), stages=("ingest",), out=run, quiet=True)
    assert made.frame("ingest").height == 6
    assert not list((run / "synth").glob(".*.tmp"))


# Captioned folders


def test_a_run_inside_its_source_does_not_change_it(tmp_path: Path, picture: Picture) -> None:
    tar(tmp_path / "a.tar.gz", {"a/x.nxml": article(fig("f1")), "a/f1.png": picture(1, (60, 50))})
    values: dict[str, Any] = {"source": str(tmp_path), "stages": ("ingest",), "quiet": True}
    made = synth(out=tmp_path / "run", **values)
    path = made.run.path / "synth/ingest.parquet"
    before = path.stat().st_ino  # a table that is written again is another file
    synth(out=tmp_path / "run", **values)
    assert path.stat().st_ino == before
    tar(tmp_path / "b.tar.gz", {"b/x.nxml": article(fig("f2"), number="7"), "b/f2.png": b""})
    synth(out=tmp_path / "run", **values)
    assert path.stat().st_ino != before


def test_a_licence_that_asks_for_attribution_needs_one(tmp_path: Path, picture: Picture) -> None:
    rows = [
        {"id": "m0", "licence": "CC BY 4.0"},
        {"id": "m1", "licence": "CC BY-SA 4.0", "attribution": "Ada 2020"},
        {"id": "m2", "licence": "CC0"},
    ]
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.png").write_bytes(picture(number, (40, 30)))
        row |= {"image": f"{number}.png", "caption": f"Scan {number}."}
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = synth(source=str(tmp_path), stages=("ingest",), out=tmp_path / "run", quiet=True)
    kept = made.frame("ingest").select("id", "article", "licence_url").rows()
    site = "https://creativecommons.org"
    assert kept == [
        ("m1", "m1", f"{site}/licenses/by-sa/4.0/"),
        ("m2", "m2", f"{site}/publicdomain/zero/1.0/"),
    ]
    assert made.dropped.select("id", "reason").rows() == [("m0", "no attribution")]


def test_a_table_of_captions(tmp_path: Path, picture: Picture) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "outside.png").write_bytes(picture(5, (40, 30)))
    for number in range(2):
        (folder / f"{number}.png").write_bytes(picture(number, (40, 30)))
    rows = [
        {
            "images": ["0.png", "1.png"],
            "caption": "Two.",
            "id": "x",
            "licence": "CC0",
            "article": "A",
        },
        {"image": "../outside.png", "caption": "Away."},
        {"image": "0.png"},
        {"caption": "Nothing."},
        [],
    ]
    lines = [*(json.dumps(row) for row in rows), "{broken"]
    (folder / "captions.jsonl").write_text("\n".join(lines))
    (figure,), dropped = read(folder)
    assert (figure.id, len(figure.images), figure.licence) == ("A/x", 2, "CC0")
    assert [one.reason for one in dropped] == [
        "missing image",
        "no caption",
        "no image",
        "unreadable row",
        "unreadable row",
    ]


def test_a_row_that_csv_cannot_read_costs_that_row_alone(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "0.png").write_bytes(picture(0, (40, 30)))
    (tmp_path / "captions.csv").write_text(f"image,caption\n0.png,{'x' * 2000}\n0.png,Short.\n")
    usual = csv.field_size_limit(1000)
    try:
        (figure,), dropped = read(tmp_path)
    finally:
        csv.field_size_limit(usual)
    assert figure.caption == "Short." and [one.reason for one in dropped] == ["unreadable row"]


def test_captions_beside_their_images(tmp_path: Path, picture: Picture) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(picture(ord(name), (40, 30)))
    (tmp_path / "a.txt").write_text("An X-ray\nof a hand.")
    (figure,), (dropped,) = read(tmp_path)
    assert figure.caption == "An X-ray of a hand." and dropped.reason == "no caption"
    assert figure.licence == "unknown" and not figure.redistributable
