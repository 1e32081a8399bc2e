"""The real old store: migrated and proved, put back byte for byte, migrated again to the same files."""

from __future__ import annotations

import shutil
from pathlib import Path

from builders_store import tree

from deermem import DeerMem

# Who is migrated whole; the others stop, are current, or have documents that no backup was made of.
WHOLE = {"mei", "omar", "pat", "reviewer", "xia"}


def without_backups(home: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(home).items() if not name.endswith(".v1.bak")}


def test_every_user_is_proved_put_back_and_migrated_to_the_same(shared: Path, tmp_path: Path, clock) -> None:
    root = tmp_path / "store"
    shutil.copytree(shared / "fixtures" / "deerflow-v1", root, copy_function=shutil.copyfile)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    homes = {user: root / "users" / user for user in WHOLE}
    before = {user: tree(home) for user, home in homes.items()}
    with DeerMem(root, clock=clock) as engine:
        report = engine.migrate(verify=True)
        assert {user.user for user in report.users if user.outcome == "migrated" and user.backups} == WHOLE
        assert not [line for user in report.users for line in user.problems if "is missing" in line]
        proved = {user.user: user.verified for user in report.users if user.user in WHOLE}
        assert sum(found.facts for found in proved.values() if found) == 24
        after = {user: tree(home) for user, home in homes.items()}
        for user in WHOLE:
            assert engine.restore(user).outcome == "restored", user
            assert without_backups(homes[user]) == before[user]
        again = engine.migrate(sorted(WHOLE), verify=True)
        assert {user.user: user.verified for user in again.users} == proved
        assert {user: tree(home) for user, home in homes.items()} == after
