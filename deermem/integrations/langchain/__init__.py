"""Memory for LangChain agents: `DeerMemMiddleware`, and the four tools by themselves. Needs the extra `langchain`."""

try:
    import langchain.agents.middleware  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"deermem.integrations.langchain needs LangChain 1.2.18 or later ({error}); pip install 'deermem[langchain]'",
        name=error.name,
    ) from error

from deermem.integrations.langchain.middleware import DeerMemMiddleware
from deermem.integrations.langchain.scope import FromRun, Run
from deermem.integrations.langchain.tools import memory_tools

__all__ = ["DeerMemMiddleware", "FromRun", "Run", "memory_tools"]
