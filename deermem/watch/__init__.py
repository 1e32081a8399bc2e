"""Following the files: which facts may have changed, told after each burst of events.

An optimisation only: every read looks at the files for itself, watched or not.
"""

from deermem.watch.events import Change
from deermem.watch.watcher import Mode, Store, Watcher

__all__ = ["Change", "Mode", "Store", "Watcher"]
