"""The fact codec on generated facts and files: what is written reads back, and both readers agree."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from deermem.format import canonical, exact, frontmatter, reading
from deermem.format.markdown import decode, encode
from deermem.format.problems import FormatError
from deermem.model.fact import CATEGORIES, SOURCE_TYPES, Fact, Source, check_content, derive_title, normalize_content

SCALE = settings.default.max_examples if settings.default and settings.default.max_examples > 100 else 60
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ODD = (
    "---\n", "--- \n", "# head\n", "## sub\n", "```\n", "\r\n", "\r", "\n", "\n\n", "    ", "\t", "\u2028",
    "\u2029", "\x85", "\x0b", "\x0c", "\ufeff", "😀", "שלום", "مرحبا", "\u202e", "<!-- c -->", "key: value\n",
    "digest: 1-0123456789abcdef\n", "id: x\n", "微信", "e\u0301", "  \n", "- item\n", "a", "Z", "0", " ",
)  # fmt: skip
SCALARS = (
    "no", "Yes", "null", "~", "0123", "12:30:45", "1_000", "1e3", "1.10", "0x1F", "2026-01-01", "=", "<<",
    "true", "-", "?", ":", "a: b", "a #b", "'", "\"", "it's", "[a]", "{a}", "&a", "*a", "!t", "%x", "@x",
    "`x", ">", "|", "a,b", "微信", "\u2028", "x\ny", "\t", "\x07", "😀", "\ufeff", "3-9f2c41d07ab3e655",
    "https://x.y/z?a=b#c", "y", "٣", "²", "½",
)  # fmt: skip
clean = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.one_of(
    st.sampled_from(SCALARS), st.text(clean, max_size=12), st.from_regex(r"[\w :#,.'-]{1,12}", fullmatch=True)
)
texts = texts.filter(lambda text: "\0" not in text)
contents = st.lists(st.one_of(st.sampled_from(ODD), st.text(clean, max_size=8)), min_size=1, max_size=10).map("".join)
lines = texts.map(lambda text: " ".join(text.split()).strip()).filter(bool)
moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)).map(
    lambda m: m.replace(tzinfo=UTC)
)
numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False))
atoms = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    atoms, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)), max_leaves=6
)
own_keys = texts.map(lambda text: f"x{text}")


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    content = normalize_content(draw(contents))
    assume(any(character.isalnum() for character in content))
    title = draw(st.one_of(lines, st.just(derive_title(content))))
    category = draw(st.one_of(st.sampled_from(sorted(CATEGORIES)), lines))
    maybe = lambda strategy: draw(st.none() | strategy)  # noqa: E731
    return Fact(
        id=draw(st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)),
        content=content,
        title=title,
        category=category.lower() if category.lower() in CATEGORIES else category,
        confidence=draw(st.floats(0, 1)),
        topics=tuple(dict.fromkeys(draw(st.lists(lines, max_size=3)))),
        source=Source(
            draw(st.sampled_from(sorted(SOURCE_TYPES))),
            maybe(texts),
            draw(st.dictionaries(own_keys, values, max_size=2)),
        ),
        created_at=draw(moments),
        updated_at=draw(moments),
        revision=draw(st.integers(1, 10**9)),
        user_id=maybe(texts),
        agent_name=maybe(st.from_regex(r"[a-z0-9-]{1,10}", fullmatch=True)),
        source_error=maybe(texts),
        expected_valid_days=maybe(st.integers(1, 36_500)),
        expires_at=maybe(moments),
        last_confirmed_at=maybe(moments),
        confirmation_count=maybe(st.integers(1, 1000)),
        consolidated_from=tuple(draw(st.lists(lines, max_size=2))),
        consolidated_at=maybe(moments),
        extra=draw(st.dictionaries(own_keys, values, max_size=3)),
    )


def read(data: bytes) -> Fact:
    return decode(data, stem="stem", when=WHEN).fact


@settings(max_examples=SCALE)
@given(facts())
def test_write_read_write_is_the_identity(fact: Fact) -> None:
    data = encode(fact)
    parsed = decode(data, stem="stem", when=WHEN)
    assert replace(parsed.fact, version="") == fact
    assert parsed.complete
    assert parsed.has_digest
    assert not parsed.edited
    assert f"\ndigest: {parsed.fact.version}\n".encode() in data
    document = reading.general_document(data.decode())
    assert reading._parsed(data, document, reading._read_body(document, ""), "stem", WHEN) == parsed
    assert encode(parsed.fact) == data
    assert encode(parsed.fact, base=data) == data


@settings(max_examples=SCALE // 3)
@given(facts(), facts(), st.sampled_from(["lf", "crlf", "header", "bom"]))
def test_a_rewrite_says_the_new_fact(old: Fact, new: Fact, style: str) -> None:
    base = encode(old)
    head, body = base.split(b"\n---\n", 1)
    if style == "crlf":
        base = base.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    elif style == "header":
        base = head.replace(b"\n", b"\r\n") + b"\r\n---\r\n" + body
    elif style == "bom":
        base = b"\xef\xbb\xbf" + base
    wanted = replace(new, id=old.id)
    data = encode(wanted, base=base)
    assert replace(read(data), version="") == wanted
    assert encode(wanted, base=data) == data


comments = st.sampled_from(["# a comment", "  # indented", "#tight", "# key: value", ""])


@settings(max_examples=SCALE)
@given(facts(), st.data())
def test_comments_order_and_unknown_keys_survive(fact: Fact, data: st.DataObject) -> None:
    head, body = encode(fact).decode().split("\n---\n", 1)
    rows = [row for row in head.split("\n")[1:] if not row.startswith("digest:")]
    at = data.draw(st.integers(0, len(rows)))
    while at < len(rows) and rows[at].startswith(("  ", "- ")):
        at += 1
    comment = data.draw(comments)
    rows.insert(at, comment)
    base = "\n".join(["---", *rows, "---", body]).encode()
    changed = replace(read(base), confidence=0.123, revision=fact.revision + 1)
    out = encode(changed, base=base).decode().split("\n---\n", 1)[0].split("\n")[1:]
    expected = [row for row in rows if not row.startswith(("confidence:", "revision:"))]
    found = [row for row in out if not row.startswith(("confidence:", "revision:", "digest:"))]
    assert found == expected
    assert encode(changed, base=base).decode().endswith(f"\n---\n{body}")


@settings(max_examples=SCALE)
@given(facts(), facts(), st.data())
def test_no_form_of_front_matter_loses_a_comment(old: Fact, new: Fact, data: st.DataObject) -> None:
    """Indented, closed by the mark that ends a document, or in braces: each comment's text is there afterwards."""
    head, body = encode(replace(old, extra={}, source=Source())).decode().split("\n---\n", 1)
    rows = [row for row in head.split("\n")[1:] if not row.startswith("digest:")]
    form = data.draw(st.sampled_from(["plain", "indented", "dots", "braces"]))
    if form == "braces":
        rows = [row for row in rows if row.partition(":")[0] in ("id", "category", "confidence", "revision", "user_id")]
        rows = [f"{'{' if not number else ' '}{row}," for number, row in enumerate(rows)]
    if form == "indented":
        rows = [f"   {row}" for row in rows]
    known = []
    for number in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(rows) - 1))
        known.append(f"# note {number}.")
        if data.draw(st.booleans()):
            rows[at] += f" {known[-1]}"
        else:
            rows.insert(at, known[-1])
    rows += {"dots": ["..."], "braces": ["}"]}.get(form, [])
    base = "\n".join(["---", *rows, "---", body]).encode()
    wanted = replace(new, id=old.id)
    out = encode(wanted, base=base)
    assert replace(read(out), version="") == wanted
    front = out.decode().split("\n---\n", 1)[0]
    assert [note for note in known if note not in front] == []
    assert encode(wanted, base=out) == out


ROWS = (
    "topics:", "source:", "x:", "- a", "- no", "- a: b", "- ", "-", "  type: manual", "  threadId: 0123",
    "  k: 1.10", "  k: null", "  - a", "   a: b", "x: []", "source: []", "x:  a", "x: a ", "x: 'a'", "x: ''",
    "x: 'it''s'", "x: \"a\"", "id: a#b", "id: a #b", "id: a: b", "id: a:", "", "# c", "x: |", "  text",
    "digest: 1-0123456789abcdef", "x: a\u2028b", "x: ~", "k2: true", "- 'q'",
)  # fmt: skip
NAMES = ("id", "topics", "source", "user_id", "confidence", "x", "no", "y z", "title")
rows = st.one_of(
    st.tuples(st.sampled_from(NAMES), texts).map(": ".join),
    st.sampled_from(ROWS),
    st.text(clean.filter(lambda character: character != "\n"), max_size=10),
)
documents = st.lists(st.one_of(rows, st.sampled_from(["---", "---\r"])), max_size=8).map(
    lambda parts: "\n".join(["---", *parts]).encode()
)


def agree(block: str) -> bool:
    fast = canonical.parse(block)
    if fast is None:
        return False
    slow = frontmatter.parse(block).fields
    assert list(map(repr, fast.items())) == list(map(repr, slow.items()))
    return True


@settings(max_examples=SCALE * 4)
@given(st.lists(rows, min_size=1, max_size=6))
@example(["x: a", "  text"])
@example(["x:", "- a", "  k: v"])
@example(["source:", "  type: a", "y: b", "  threadId: c"])
@example([f"{'k' * 1100}: a"])
def test_the_fast_reader_agrees_with_the_general_one(parts: list[str]) -> None:
    agree("\n".join(parts) + "\n")


@settings(max_examples=SCALE)
@given(facts(), st.data())
def test_both_readers_agree_on_mutated_files(fact: Fact, data: st.DataObject) -> None:
    head = encode(fact).decode().split("\n---\n", 1)[0][4:] + "\n"
    agree(head)
    at = data.draw(st.integers(0, len(head) - 1))
    agree(
        head[:at]
        + data.draw(st.one_of(st.sampled_from(SCALARS), st.text(clean, max_size=3)))
        + head[at + data.draw(st.integers(0, 3)) :]
    )
    parts = head.split("\n")[:-1]
    agree("\n".join(data.draw(st.permutations(parts))) + "\n")


def test_the_fast_reader_takes_what_engines_write() -> None:
    fact = Fact(
        id="a", content="c", title="t", topics=("b", "c d"), created_at=WHEN, updated_at=WHEN, extra={"mood": "fine"}
    )
    assert agree(encode(fact).decode().split("\n---\n", 1)[0][4:] + "\n")


def agrees_exactly(data: bytes) -> bool:
    """Whether the one-pattern reader takes a file; where it does, the general reader must say the same."""
    try:
        text = data.decode()
        taken = exact.read(text, data)
    except (UnicodeDecodeError, FormatError):
        return False
    if taken is None:
        return False
    document = reading.general_document(text)
    general = reading._parsed(data, document, reading._read_body(document, text), "stem", WHEN)
    assert taken == (general.fact, general.edited, general.complete)
    assert general.has_digest
    return True


@settings(max_examples=SCALE * 2)
@given(facts(), st.data())
def test_the_one_pattern_reader_agrees_with_the_general_one(fact: Fact, data: st.DataObject) -> None:
    plain = replace(fact, topics=(), extra={}, category="goal", source=Source("conversation", "thread-7"))
    text = encode(plain).decode()
    agrees_exactly(text.encode())
    at = data.draw(st.integers(0, min(len(text) - 1, 500)))
    piece = data.draw(st.one_of(st.sampled_from(SCALARS), st.text(clean, max_size=3)))
    agrees_exactly((text[:at] + piece + text[at + data.draw(st.integers(0, 3)) :]).encode())


@settings(max_examples=SCALE * 2)
@given(st.data())
def test_the_one_pattern_reader_agrees_on_odd_values(data: st.DataObject) -> None:
    value = st.one_of(st.sampled_from([*SCALARS, "", "Null", "a'b", "x@y.z", "é", "a  b "]), texts)
    odd = {name: data.draw(value) for name in ("id", "type", "thread", "created", "user", "agent")}
    quote = {name: data.draw(st.booleans()) for name in odd}
    said = {name: f"'{text}'" if quote[name] else text for name, text in odd.items()}
    number = data.draw(st.sampled_from(["0.9", "1", "1.0", "0", "0.", "1.5", ".5", "-0"]))
    agrees_exactly(
        f"---\nid: {said['id']}\nschemaVersion: 2\ncategory: goal\nconfidence: {number}\nstatus: active\ntopics: []\n"
        f"source:\n  type: {said['type']}\n  threadId: {said['thread']}\nrevision: 3\n"
        f"createdAt: {data.draw(st.sampled_from(['2026-01-02T03:04:05Z', '2026-13-02T03:04:05Z', odd['created']]))!r}\n"
        f"updatedAt: '2026-01-02T03:04:05.000001Z'\nuser_id: {said['user']}\nagent_name: {said['agent']}\n"
        "digest: 3-0123456789abcdef\n---\n\n# Title\n\nContent.\n".encode()
    )


@pytest.mark.parametrize("user", [None, "alice", "bob@example.com", "null"])
def test_the_one_pattern_reader_takes_what_this_engine_writes(user: str | None) -> None:
    fact = Fact(id="fact_1", content="c", title="t", created_at=WHEN, updated_at=WHEN, user_id=user, agent_name="coder")
    assert agrees_exactly(encode(fact))


@settings(max_examples=SCALE * 2)
@given(st.one_of(st.binary(max_size=40), documents))
def test_any_bytes_are_read_or_refused_by_name(data: bytes) -> None:
    try:
        fact = read(data)
    except FormatError as error:
        problem = error.problem
    else:
        assert check_content(fact.content) == fact.content
        again = encode(fact, base=data)
        assert replace(read(again), version="") == replace(fact, version="")
        return
    assert problem.code
    assert problem.message
    assert problem.line >= 1
