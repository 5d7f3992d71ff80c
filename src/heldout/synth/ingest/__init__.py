"""Ingest: figures with captions, mentions and licences, from what open literature is distributed as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from heldout.engine import progress
from heldout.errors import InputError
from heldout.store import Dropped
from heldout.synth.context import StageContext, StageWork, files_digest
from heldout.synth.draft import PaperFigure
from heldout.synth.ingest._articles import (
    PACKAGE_ENDINGS,
    XML_ENDINGS,
    folder_articles,
    is_biomedica,
    package_articles,
    shard_figures,
)
from heldout.synth.ingest._images import (
    DUPLICATE,
    TABLES,
    SeenFigures,
    caption_table,
    sidecar_figures,
    table_figures,
)
from heldout.synth.ingest._jats import UNKNOWN, copyright_notice, needs_attribution
from heldout.synth.ledger import StageWriter
from heldout.synth.settings import SynthSettings, SynthStage

STAGE = "ingest"
RULES = "heldout-ingest/4"  # raise with any change of what is read or refused
SCENES = "scenes"  # a source that is rendered, not read


def _ingest(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    seen = SeenFigures()
    unread: Counter[str] = Counter()
    figures, first = 0, ""
    with progress("reading figures", None, "figures", disabled=context.quiet) as step:
        for figure in read_figures(settings, context.run.path):
            step()
            if isinstance(figure, Dropped):
                writer.drop(figure)
                unread[figure.reason] += 1
                first = first or f"; the first: {figure.id}: {figure.detail}"
                continue
            figures += 1
            reason = refusal(figure, settings)
            reason = reason or seen.refusal(figure)
            if reason is not None:
                writer.drop(Dropped(STAGE, figure.id, *reason))
            elif not seen.waits(figure):
                writer.keep(figure.as_row())
            if seen.full:
                _compare(seen, writer)
    _compare(seen, writer)
    if not figures:
        why = ", ".join(f"{reason} {count:,}" for reason, count in unread.most_common(5))
        raise InputError(
            f"no figure with image and caption in {settings.source}"
            + (f" ({why}{first})" if why else "")
            + ": expected JATS XML (.xml, .nxml) with images beside it, PMC packages (.tar.gz), "
            f"Biomedica shards (.tar), images with a table ({', '.join(TABLES)}), or images with a .txt "
            "of the same name beside each"
        )


def _compare(seen: SeenFigures, writer: StageWriter) -> None:
    for figure, known in seen.compared():
        if known:
            detail = f"{figure.source}: same picture and caption as {known}"
            writer.drop(Dropped(STAGE, figure.id, DUPLICATE, detail))
        else:
            writer.keep(figure.as_row())


INGEST = StageWork(
    SynthStage.INGEST,
    _ingest,
    ("source", "shortest_side", "most_images", "any_licence", "plant", "limit", "seed"),
    versions=(RULES,),
    outside=lambda context: files_digest(Path(context.settings.source), context.run.path),
)


def read_figures(settings: SynthSettings, run: Path) -> Iterator[PaperFigure | Dropped]:
    """All figures of the source, in an order that depends on its files alone."""
    if settings.source == SCENES:
        from heldout.synth._from_scenes import scene_figures

        yield from scene_figures(settings, run)
        return
    path = Path(settings.source)
    if not path.exists():
        raise InputError(
            f"{settings.source} does not exist: expected a file, a folder, or 'scenes'"
        )
    for file in [path] if path.is_file() else _files(path):
        yield from _figures_of(file, settings)


def _files(folder: Path) -> Iterator[Path]:
    """Files that hold figures. A folder with a caption table is read by that table alone."""
    table = caption_table(folder)
    if table is not None:
        yield table
        return
    has_articles = False
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.name.lower().endswith((*XML_ENDINGS, *PACKAGE_ENDINGS, ".tar")):
            has_articles = True
            yield path
    if not has_articles:
        yield folder


def _figures_of(path: Path, settings: SynthSettings) -> Iterator[PaperFigure | Dropped]:
    name, shortest = path.name.lower(), settings.shortest_side
    if path.is_dir():
        yield from sidecar_figures(path, shortest)
    elif name.endswith(XML_ENDINGS):
        yield from folder_articles(path, shortest)
    elif name.endswith(".tar") and is_biomedica(path):
        yield from shard_figures(path, shortest, settings.most_images)
    elif name.endswith((*PACKAGE_ENDINGS, ".tar")):
        yield from package_articles(path, shortest)
    elif name.endswith((".jsonl", ".csv", ".tsv")):
        yield from table_figures(path, shortest)
    else:
        yield Dropped(
            STAGE, str(path), "unknown file", "expected XML, a package, a shard or a table"
        )


def refusal(figure: PaperFigure, settings: SynthSettings) -> tuple[str, str] | None:
    """Reason and detail of a figure that is not used, or None."""
    if len(figure.images) > settings.most_images:
        return "too many images", f"{len(figure.images)}, at most {settings.most_images}"
    if settings.any_licence:
        return None
    if notice := copyright_notice(figure.caption):
        return "third-party copyright", f"the caption says: {notice}"
    if not figure.redistributable:
        read = f' ("{figure.licence_text}")' if figure.licence_text else ""
        read = read or (" (none is stated)" if figure.licence == UNKNOWN else "")
        return "licence", f"{figure.licence}{read}: items made from it could not be published"
    if needs_attribution(figure.licence) and not figure.attribution.strip():
        return (
            "no attribution",
            f"{figure.licence} asks for authors and source, and {figure.source} names none",
        )
    return None
