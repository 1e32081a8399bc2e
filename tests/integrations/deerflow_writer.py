"""A process beside others: opens a manager and stores facts, each of which another one stores too but under its name.

Arguments: the root, the process's word, how many facts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deerflow_stage import opened

if __name__ == "__main__":
    root, word, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with opened(root, max_facts=500) as manager:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            manager.create_fact(f"{word} says {number}", user_id="alice@example.com")
