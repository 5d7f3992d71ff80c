"""What other people's catalogues take: cards, databases, evaluation records, citations."""

from heldout.report.export.formats import FORMATS, export

__all__ = ["FORMATS", "export"]
