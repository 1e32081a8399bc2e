"""The previous default bucket, `lead-agent`, becomes part of `__default__`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deermem.errors import UnexpectedFiles
from deermem.format.paths import facts_folder
from deermem.migrate.legacy import StoredFact, UserFiles, is_fact_file, walk
from deermem.migrate.merge import Bucket, check_owner
from deermem.migrate.place import LEAD_AGENT, UserPlace, printable
from deermem.model.changes import FileChange
from deermem.model.scope import DEFAULT_AGENT

_FOLDER: Final = f"agents/{LEAD_AGENT}"
_SIDECARS: Final = ("fact-usage.json", "eviction-audit.json")
_SHOWN: Final = 5


def adopt(
    files: UserFiles, place: UserPlace, facts: list[StoredFact], into: Bucket, owner: str | None
) -> list[FileChange]:
    """Takes the facts into the bucket and gives the removals and moved sidecars.

    Raises UnexpectedFiles, naming them, where the folder holds anything but readable facts of lead-agent and our
    sidecars. A sidecar moves where `__default__` has none, else it stays.
    """
    _check_entries(files, place, facts)
    changes: list[FileChange] = []
    for item in facts:
        if item.fact is not None:
            check_owner(item.fact, owner, place.shown(item.path))
            into.add(item.fact, item.path, base=item.data)
            changes.append(FileChange(item.path, item.data, None))
    return changes + list(_moved_sidecars(files))


def folders(files: UserFiles, folder: str = _FOLDER) -> list[str]:
    """The bucket's folders, the deepest first."""
    found = [folder]
    for above in found:
        found += [f"{above}/{name}" for name, is_folder in files.listdir(above) if is_folder]
    return found[::-1]


def _check_entries(files: UserFiles, place: UserPlace, facts: list[StoredFact]) -> None:
    sidecars = {f"{_FOLDER}/.metadata/{name}" for name in _SIDECARS}
    expected = {item.path for item in facts} | sidecars
    strange = [path for path in sorted(walk(files, _FOLDER)) if path not in expected and not _is_litter(path)]
    strange += [item.path for item in facts if item.fact is None or item.fact.agent_name != LEAD_AGENT]
    if strange:
        names = ", ".join(printable(path.removeprefix(f"{_FOLDER}/")) for path in strange[:_SHOWN])
        more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        raise UnexpectedFiles(
            f"{place.shown(_FOLDER)}, the default bucket of an older release, holds unexpected files: {names}{more}",
            hint="move them away, or add a config.yaml if this is an agent of its own",
        )


def _is_litter(path: str) -> bool:
    name = path.rpartition("/")[2]
    in_facts = path.startswith(f"{facts_folder(LEAD_AGENT)}/")
    return name == ".DS_Store" or (in_facts and name.startswith("._") and not is_fact_file(path))


def _moved_sidecars(files: UserFiles) -> Iterator[FileChange]:
    for name in _SIDECARS:
        source, target = f"{_FOLDER}/.metadata/{name}", f"agents/{DEFAULT_AGENT}/.metadata/{name}"
        data = files.read(source)
        if data is not None and files.read(target) is None:
            yield FileChange(target, None, data)
            yield FileChange(source, data, None)
