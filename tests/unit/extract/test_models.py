"""The port to a model: what may be one, what it may answer, and the model that settings name."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

import deermem
from deermem.config import ModelSettings
from deermem.errors import InvalidInput
from deermem.extract.models import ModelCall, answer_text, as_model

ASKED = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
KEY = "sk-not-a-real-key-1234567890"


class Invokable:
    """A model as LangChain's are; it gives back what it was given."""

    model_name = "small-1"

    def invoke(self, messages: object, config: object = None) -> object:
        return messages, config


class AsyncInvokable:
    async def invoke(self, messages: list[dict[str, str]]) -> str:
        await asyncio.sleep(0)
        return messages[1]["content"]


async def answer_later(messages: list[dict[str, str]]) -> str:
    await asyncio.sleep(0)
    return messages[0]["content"]


def test_an_object_is_invoked_with_the_messages_alone():
    call = as_model(Invokable())
    assert call(ASKED) == (ASKED, None)
    assert call(ASKED, {"tags": ["memory"]}) == (ASKED, {"tags": ["memory"]})
    assert (call.name, as_model(call)) == ("small-1", call)


def test_a_function_is_called_with_the_messages():
    call = as_model(lambda messages: messages[1]["content"])
    assert call(ASKED) == call(ASKED, {"tags": []}) == "U"
    assert as_model(answer_later).name == "answer_later"


@pytest.mark.parametrize("model", [None, 3, object(), SimpleNamespace(invoke="x"), Invokable, {}, "", " "])
def test_anything_else_is_refused(model: object):
    with pytest.raises(InvalidInput, match="model"):
        as_model(model)


@pytest.mark.parametrize(("model", "said"), [(answer_later, "S"), (AsyncInvokable(), "U")])
def test_an_async_model_is_run_to_its_end(model: object, said: str):
    call = as_model(model)
    assert [call(ASKED), call(ASKED)] == [said, said]


def test_an_async_model_works_in_a_thread_of_a_program_that_runs_a_loop():
    """124"""

    async def host() -> object:
        return await asyncio.to_thread(as_model(answer_later), ASKED)

    assert asyncio.run(host()) == "S"


def test_an_async_model_sees_the_context_variables_of_its_thread():
    bound = contextvars.ContextVar("bound", default="none")

    async def model(messages: object) -> str:
        return bound.get()

    bound.set("t-1")
    assert as_model(model)(ASKED) == "t-1"


def test_an_async_model_within_a_running_loop_is_an_error_that_says_so():
    async def host() -> object:
        return as_model(answer_later)(ASKED)

    with pytest.raises(InvalidInput, match="runs an event loop"):
        asyncio.run(host())


def test_a_sync_model_works_within_a_running_loop():
    async def host() -> object:
        return as_model(lambda messages: "yes")(ASKED)

    assert asyncio.run(host()) == "yes"


def test_a_sync_model_never_needs_an_event_loop():
    """124"""
    code = (
        "import sys\nfrom deermem.extract.models import as_model\n"
        "assert as_model(lambda messages: 'x')([]) == 'x'\n"
        "assert not {'asyncio', 'langchain', 'pydantic'} & set(sys.modules)"
    )
    path = str(Path(deermem.__file__).resolve().parent.parent)
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_that_was_cancelled_is_a_failure_and_ends_no_thread(is_async: bool):
    async def answer(messages: object) -> object:
        raise asyncio.CancelledError

    def model(messages: object) -> object:
        raise asyncio.CancelledError

    with pytest.raises(TimeoutError, match="cancelled"):
        as_model(answer if is_async else model)(ASKED)


def test_what_a_model_raises_is_raised():
    def model(messages: object) -> object:
        raise TimeoutError("slow")

    with pytest.raises(TimeoutError, match="slow"):
        as_model(model)(ASKED)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("{}", "{}"),
        (["{", '"a":', " 1}"], '{"a": 1}'),
        (SimpleNamespace(content="{}"), "{}"),
        (SimpleNamespace(content=["a", "b", {"type": "text", "text": "c"}, {"type": "text", "text": "d"}]), "ab\nc\nd"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"text": "y"}]}, "y"),
        ({"user": {}, "newFacts": [{"content": "喜欢茶"}]}, '{"user": {}, "newFacts": [{"content": "喜欢茶"}]}'),
        (SimpleNamespace(content={"user": {}, "newFacts": []}), '{"user": {}, "newFacts": []}'),
        (SimpleNamespace(content=None), ""),
        ("\ud83d\ude00 \ud83d", "😀 \ufffd"),
    ],
)
def test_an_answer_is_text_whatever_form_it_has(answer: object, text: str):
    """108"""
    assert answer_text(answer) == text


@pytest.mark.parametrize("answer", [None, 3, b"{}", object(), SimpleNamespace(content=3), {"a": object()}])
def test_what_is_no_answer_is_refused(answer: object):
    with pytest.raises(InvalidInput, match="model"):
        answer_text(answer)


# --- the model that settings name


def installed(monkeypatch: pytest.MonkeyPatch, init: object) -> None:
    """Puts a `langchain` in place whose `init_chat_model` this is; None: langchain isn't installed."""
    module = ModuleType("langchain.chat_models")
    if init is not None:
        module.init_chat_model = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", module if init is not None else None)


def test_without_langchain_the_extra_is_named_at_the_first_call(monkeypatch: pytest.MonkeyPatch):
    installed(monkeypatch, None)
    call = as_model("openai:small")
    with pytest.raises(InvalidInput, match=r"pip install 'deermem\[llm\]'"):
        call(ASKED)


def test_the_model_is_built_once_with_what_is_set(monkeypatch: pytest.MonkeyPatch):
    made: list[dict[str, Any]] = []

    def init(model: str, **options: object) -> object:
        made.append({"model": model, **options})
        return Invokable()

    installed(monkeypatch, init)
    call = as_model({"provider": "openai", "model": "small", "api_key": KEY, "temperature": 0, "base_url": None})
    assert made == []
    threads = [threading.Thread(target=call, args=(ASKED,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [{"model": "small", "model_provider": "openai", "api_key": KEY, "temperature": 0}]
    assert call.name == "openai:small"


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        ("openai:small", None),
        ({"model": "deepseek-chat", "base_url": "http://127.0.0.1/v1"}, "openai"),
        ({"model": "anthropic:c", "base_url": "http://127.0.0.1/v1"}, None),
        ({"model": "small", "provider": "ollama", "base_url": "http://127.0.0.1/"}, "ollama"),
    ],
)
def test_a_base_url_without_provider_speaks_openais_protocol(given: object, provider: str | None):
    settings = ModelSettings.of(given)
    assert settings is not None
    assert settings.chosen_provider == provider


class Validation(ValueError):
    """As pydantic's: it shows its input."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(f"no provider for {KEY}"), "no provider for ***"),
        (Validation(f"input_value='{KEY[:12]}...'"), "(Validation); look at"),
        (ImportError(f"pip install langchain-openai {KEY}"), "pip install langchain-openai ***"),
    ],
)
def test_a_model_that_cannot_be_built_never_tells_the_key(monkeypatch: pytest.MonkeyPatch, error: Exception, told: str):
    def init(model: str, **options: object) -> object:
        raise error

    installed(monkeypatch, init)
    with pytest.raises(InvalidInput) as caught:
        as_model({"model": "openai:small", "api_key": KEY})(ASKED)
    assert told in str(caught.value)
    assert KEY[:12] not in str(caught.value)
    assert caught.value.__suppress_context__


def test_the_key_is_in_no_repr():
    call = as_model({"model": "openai:small", "api_key": KEY, "base_url": f"https://u:{KEY}@127.0.0.1"})
    settings = deermem.Settings(model={"model": "openai:small", "api_key": KEY})
    assert KEY not in repr(call) + repr(call._ask) + repr(settings) + str(settings.model)


# --- with LangChain itself, where it is installed


@pytest.mark.filterwarnings("ignore")
def test_langchain_names_the_package_or_the_provider_that_is_missing():
    pytest.importorskip("langchain.chat_models")
    with pytest.raises(InvalidInput, match="can't be built") as unknown:
        as_model({"model": "no-such-model", "api_key": KEY})(ASKED)
    assert KEY not in str(unknown.value)
    with pytest.raises(InvalidInput, match=r"can't be loaded.*langchain-fireworks") as missing:
        as_model({"model": "fireworks:x", "api_key": KEY})(ASKED)
    assert KEY not in str(missing.value)


class Provider(BaseHTTPRequestHandler):
    """A provider that speaks OpenAI's protocol."""

    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append(f"{self.path} {body}")
        answer = (
            b'{"id":"1","object":"chat.completion","created":1,"model":"small","choices":[{"index":0,'
            b'"finish_reason":"stop","message":{"role":"assistant","content":"{}"}}],'
            b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


@pytest.mark.filterwarnings("ignore")
def test_langchain_asks_a_provider_that_speaks_openais_protocol():
    pytest.importorskip("langchain_openai")
    pytest.importorskip("langchain.chat_models")
    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        call = as_model({"provider": "openai", "model": "small", "api_key": KEY, "base_url": url})
        assert answer_text(call(ASKED)) == "{}"
        server.shutdown()
    assert Provider.seen[0].startswith("/v1/chat/completions ")
    assert isinstance(call, ModelCall)
