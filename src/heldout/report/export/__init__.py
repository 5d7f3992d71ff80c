"""What other people's catalogues take: cards, databases, evaluation records, citations."""
