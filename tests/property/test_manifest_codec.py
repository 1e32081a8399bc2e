"""The memory.json codec on generated documents."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from deermem.format.manifest import decode, encode
from deermem.format.problems import FormatError
from deermem.model.summaries import Section, Summaries

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
sections = st.builds(Section, texts, texts)
summaries = st.builds(
    Summaries,
    work_context=sections,
    personal_context=sections,
    top_of_mind=sections,
    recent_months=sections,
    earlier_context=sections,
    long_term_background=sections,
    revision=st.integers(0, 10**6),
    last_updated=texts,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
own = st.dictionaries(texts.map(lambda key: f"x{key}"), values, max_size=3)


@given(summaries, own, own)
def test_write_read_write_is_the_identity(given_summaries: Summaries, extra: dict[str, object], inner: object) -> None:
    base = decode(json.dumps({"version": "2.0", **extra, "user": inner}).encode())
    arguments = {"revision": given_summaries.revision, "now": given_summaries.last_updated}
    data = encode(base, summaries=given_summaries, **arguments)
    found = decode(data)
    assert found.summaries == given_summaries
    assert {key: value for key, value in found.raw.items() if key in extra} == extra
    assert encode(found, summaries=found.summaries, **arguments) == data


@given(
    st.one_of(
        st.binary(max_size=30),
        own.map(lambda raw: json.dumps(raw).encode()),
        values.map(lambda raw: json.dumps(raw).encode()),
    )
)
def test_any_bytes_are_read_or_refused_by_name(data: bytes) -> None:
    try:
        manifest = decode(data)
    except FormatError as error:
        problem = error.problem
    else:
        problem = None
        assert json.loads(encode(manifest, summaries=manifest.summaries, revision=1, now=""))["version"] == "2.0"
    assert problem is None or (problem.code and problem.message)


digits = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
escapes = st.text(st.characters(), max_size=8)


@given(st.lists(digits, max_size=4), escapes, escapes)
def test_what_others_wrote_keeps_its_digits_and_half_characters(numbers: list[str], key: str, text: str) -> None:
    data = f'{{"version": "2.0", "n": [{", ".join(numbers)}], {json.dumps(f"x{key}")}: {json.dumps(text)}}}'
    base = decode(data.encode())
    once = encode(base, summaries=base.summaries, revision=1, now="")
    assert json.loads(once, parse_float=str, parse_int=str)["n"] == numbers
    assert json.loads(once)[f"x{key}"] == json.loads(json.dumps(text))
    again = decode(once)
    assert encode(again, summaries=again.summaries, revision=1, now="") == once
