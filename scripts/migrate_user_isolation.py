#!/usr/bin/env python3
"""Moves the memory of the no-user root (memory.json, agents/) into a user's folder, users/ID.

    python scripts/migrate_user_isolation.py [--dry-run] [--user-id ID] [--storage-path DIR]

Stop every program that uses the store first. Nothing is overwritten: what meets something else stays and is named. It
may be interrupted anywhere and run again. Exit codes: 0 all is moved, 1 something stayed, 2 the call was wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Parses, moves, prints."""
    options = _parser().parse_args(arguments)
    # In a checkout it is that code which is meant, whatever is installed besides.
    if (CHECKOUT / "deermem" / "__init__.py").is_file():
        sys.path.insert(0, str(CHECKOUT))
    try:
        from deermem.cli.output import tolerate_any_character
    except ModuleNotFoundError as error:
        print(f"{_parser().prog}: {error}; install deermem, or use the checkout's .venv/bin/python", file=sys.stderr)
        return 1
    tolerate_any_character()
    try:
        return _move(options)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="migrate_user_isolation",
        description="Move memory.json and agents/ from the root of a store into the folder of one user.",
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
    parser.add_argument("--user-id", default="default", metavar="ID", help="who gets it; else 'default'")
    parser.add_argument("--storage-path", metavar="DIR", help="the store; else $DEERMEM_DATA_DIR, else ~/.deermem")
    return parser


def _move(options: argparse.Namespace) -> int:
    from deermem.cli.log import shown_warnings
    from deermem.cli.output import done, note, one_line
    from deermem.config import Settings
    from deermem.errors import DeerMemError
    from deermem.migrate.isolation import isolate

    if options.storage_path == "":
        _parser().error("--storage-path is empty; give the folder of the store")
    try:
        with shown_warnings():
            result = isolate(
                Settings(root=options.storage_path),
                options.user_id,
                # A terminal that went away must not end a move half-way.
                tell=lambda line: done(one_line(line)),
                dry_run=options.dry_run,
            )
    except DeerMemError as error:
        note(f"{_parser().prog}: {error}")
        return error.exit_code
    for problem in result.problems:
        note(f"{_parser().prog}: {problem}")
    done(str(result))
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
