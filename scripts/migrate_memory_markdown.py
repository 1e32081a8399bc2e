#!/usr/bin/env python3
"""`deermem migrate` under a name of its own: the same options, the same output, the same exit codes.

    python scripts/migrate_memory_markdown.py --all-users --storage-path DIR --dry-run

Runs the deermem that this Python has installed, else the one of the checkout that the script lies in.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
REPAIR = f"install it first, for example: {sys.executable} -m pip install {CHECKOUT}"


def main() -> int:
    """Calls the command; 1 with a line that says what to do where it can't be loaded."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever calls a script by hand may call it with any Python
        print("migrate_memory_markdown.py: needs Python 3.11 or later; call it with such a one", file=sys.stderr)
        return 1
    if find_spec("deermem") is None:
        sys.path.insert(0, str(CHECKOUT))
    try:
        from deermem.cli.main import fill_closed_streams, run
    except ImportError as error:
        print(f"migrate_memory_markdown.py: deermem can't be loaded ({error}); {REPAIR}", file=sys.stderr)
        return 1
    fill_closed_streams()
    return run(["migrate", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
