"""A LangGraph `BaseStore` whose items are Markdown files: `DeerMemStore`. Needs the extra `langgraph`."""

try:
    import langgraph.store.base  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"deermem.integrations.langgraph_store needs LangGraph's store ({error}); pip install langgraph-checkpoint",
        name=error.name,
    ) from error

from deermem.integrations.langgraph_store.names import namespace_label
from deermem.integrations.langgraph_store.store import DeerMemStore

__all__ = ["DeerMemStore", "namespace_label"]
