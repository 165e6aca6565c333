"""`python -I …/egress/__main__.py`: be the egress process (process.py)."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from cloche.egress.process import main

    os._exit(main())  # without waiting for name servers that do not answer: the engine waits for this process
