"""`python -m bothways`, where the command itself is not on the path (as under torchrun)."""

from __future__ import annotations

import sys

from bothways.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
