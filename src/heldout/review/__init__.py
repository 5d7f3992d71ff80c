"""Review: the local page where people adjudicate matches and rate items."""
