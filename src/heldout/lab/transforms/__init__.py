"""How well copies are found after a flip, a crop, noise …: transforms, similarities, rates."""
