"""``python -m heldout`` is ``heldout``."""

from heldout.cli import main

if __name__ == "__main__":
    main()
