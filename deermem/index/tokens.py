"""Text → tokens: the one tokeniser of facts and queries. FTS5 only parts at the blanks that are put here.

A body is the running words of each text and, after a break that no phrase can cross, its compounds. Words of
spaced scripts are stemmed (English for Latin letters, Russian for Cyrillic). A run of Han, Kana, Hangul, Thai,
Lao, Khmer or Burmese becomes its overlapping character pairs and its last character, so that every substring
is a phrase of pairs and every single character the start of a token. Borders between scripts part words. A
compound is a code-like word as a whole: `node.js`, `c++`, `gb/s`, `foo_bar`, a path, an address, `5月`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import Stemmer

from deermem.index.fold import fold

TOKENIZER: Final = "deermem-2"
"""Name and version; an index of another one is rebuilt before anything is written to it."""

FTS_TOKENIZE: Final = "\"ascii tokenchars '.-_+#/\\@:=&~^$%,'\""
"""FTS5's `tokenize=` option, its double quotes included: ASCII letters, digits and what compounds hold."""

BREAK: Final = ","
MAX_COMPOUND: Final = 64
_LONG_START: Final = 60
_LONGEST_KEPT: Final = 24

_RUN_CLASS: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\ua9e0-\ua9fe\uaa60-\uaa7f\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u3040-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_RUN_RANGES: Final = tuple((span[0], span[-1]) for span in re.findall(".-.", _RUN_CLASS))
_HAN_RANGES: Final = (
    ("\u3005", "\u3007"),
    ("\u3400", "\u4dbf"),
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)
_FLAGS: Final = "\U0001f1e6-\U0001f1ff"
_LATIN: Final = "a-z0-9\u00df-\u024f\u1e00-\u1eff"
_WORD: Final = re.compile(
    f"[{_LATIN}]+|[{_RUN_CLASS}]+|[{_FLAGS}]{{1,2}}|[^\\x00-/:-`{{-\\x7f\\s{_LATIN}{_RUN_CLASS}{_FLAGS}]+"
)
_CODE: Final = re.compile(f"[^\\x00-\\x20\"'(),;<>?!*`\\[\\]{{|}}\\x7f\\s{_RUN_CLASS}]+")
_JOINT: Final = re.compile(r"[!-/:-@\[-`{-~]")
_STRONG: Final = re.compile(r"[/\\@:=&~^$%]+")
_DATED: Final = re.compile(r"[0-9]+[^\W\d_a-z]")
_CAMEL: Final = re.compile(r"\b[A-Za-z]*[a-z][A-Z][A-Za-z]*\b")
_HUMP: Final = re.compile(r"[a-z][A-Z]")
_CAMEL_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NEGATION: Final = re.compile(r"(?<=n)'t\b")
_APOSTROPHE: Final = re.compile(r"\w+(?:'\w+)+")
_CLITIC: Final = re.compile(r"(?<=\w)'(?:s|re|ve|ll|d|m)\b")
_CLOSING: Final = ".,;:!?\"')]}*"
_EDGES: Final = ".-'/:=&~^\\"
_HEAD_EDGES: Final = _EDGES + "+"
_TAIL_EDGES: Final = _EDGES + "@$"


@dataclass(frozen=True, slots=True)
class Scan:
    """A folded text taken apart: `words` in reading order (runs undivided, nothing stemmed) and `compounds`."""

    words: tuple[str, ...]
    compounds: tuple[str, ...]


def scan(text: str) -> Scan:
    """Takes a text apart, for queries and for the index alike."""
    words: list[str] = []
    compounds: list[str] = []
    for chunk in fold(text).split():
        bare = chunk.rstrip(_CLOSING)
        if bare.isascii() and bare.isalnum():
            words.append(bare)
        else:
            _scan_chunk(chunk, words, compounds)
    return Scan(tuple(words), tuple(compounds))


def index_text(*texts: str) -> tuple[str, int]:
    """The `body` column of the given texts, and its number of tokens (the fact's length in ranking).

    A text that a later one begins with, as a title taken from its content, is left out: it would count twice.
    """
    tokens: list[str] = []
    for at, text in enumerate(texts):
        if any(_begins(later, text) for later in texts[at + 1 :]):
            continue
        tail: list[str] = []
        _index_chunks(fold(text).split(), tokens, tail)
        if _HUMP.search(text):
            tail += _camel_parts(text)
        tokens += [BREAK, *tail, BREAK] if tail else [BREAK]
    while tokens and tokens[-1] == BREAK:
        tokens.pop()
    return " ".join(tokens), len(tokens)


def _index_chunks(chunks: Iterable[str], tokens: list[str], compounds: list[str]) -> None:
    """What `scan` and `stream` make of a folded text, in one go: most chunks are plain words."""
    for chunk in chunks:
        plain = _plain(chunk) if len(chunk) <= _LONGEST_KEPT else None
        if plain is not None:
            tokens.append(plain)
        else:
            words: list[str] = []
            _scan_chunk(chunk, words, compounds)
            tokens += stream(words)


@lru_cache(maxsize=16_384)
def _plain(chunk: str) -> str | None:
    """The token of a chunk that is one plain word, in the punctuation of its sentence."""
    bare = chunk.rstrip(_CLOSING)
    return stem(bare) if bare.isascii() and bare.isalnum() else None


def _begins(text: str, start: str) -> bool:
    """Whether `start` is told again by `text`; a short one must end where a word does (`Auto`, `Automatic`)."""
    if not text.startswith(start):
        return False
    return len(start) >= _LONG_START or not text[len(start) : len(start) + 1].isalnum()


def stream(words: Iterable[str]) -> list[str]:
    """The running tokens of scanned words: stems, and the pairs of runs with their last character."""
    tokens: list[str] = []
    for word in words:
        if is_run(word):
            tokens += pairs(word)
            tokens.append(word[-1])
        else:
            tokens.append(stem(word))
    return tokens


def is_run(word: str) -> bool:
    """Whether a scanned word is a run of a script that writes no blanks."""
    return word[0] >= "\u0e01" and _is_run_character(word[0])


@lru_cache(maxsize=16_384)
def _is_run_character(character: str) -> bool:
    return any(low <= character <= high for low, high in _RUN_RANGES)


@lru_cache(maxsize=16_384)
def is_han(character: str) -> bool:
    """Whether a character means something alone, as a Han character does."""
    return any(low <= character <= high for low, high in _HAN_RANGES)


def pairs(run: str) -> list[str]:
    """The overlapping character pairs of a run, none for a single character."""
    return [run[at : at + 2] for at in range(len(run) - 1)]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The stem of a scanned word; words with digits and of other scripts stay as they are."""
    if word.isascii():
        return str(_stemmer("english").stemWord(word)) if len(word) > 2 and word.isalpha() else word
    if "\u0400" <= word[0] <= "\u04ff":
        return str(_stemmer("russian").stemWord(word)).replace("й", "и")
    return word


_local: Final = threading.local()


def _stemmer(language: str) -> Stemmer.Stemmer:
    """One per thread: a stemmer keeps state while it works."""
    known: dict[str, Stemmer.Stemmer] = _local.__dict__
    if language not in known:
        known[language] = Stemmer.Stemmer(language, 0)
    return known[language]


def _scan_chunk(chunk: str, words: list[str], compounds: list[str]) -> None:
    if "'" in chunk:
        chunk = _CLITIC.sub("", _NEGATION.sub("t", chunk))
        # Written together it is a word like any other: `OReilly` finds `O'Reilly`.
        compounds += [stem(name.replace("'", "")) for name in _APOSTROPHE.findall(chunk)]
    words += _WORD.findall(chunk)
    if not chunk.isalnum():
        for code in _CODE.findall(chunk):
            compounds += _compounds(code)
    if not chunk.isascii():
        compounds += [dated for dated in _DATED.findall(chunk) if is_run(dated[-1])]


def _compounds(code: str) -> Iterator[str]:
    """A code-like word whole, and the wholes between its strong joints (`a.b` and `c-d` of `a.b/c-d`)."""
    whole = _trimmed(code)
    if not whole or whole.isalnum():
        return
    joints = _STRONG.split(whole)
    if len(whole) <= MAX_COMPOUND and _JOINT.search(whole) and _WORD.search(whole):
        yield whole
    if len(joints) > 1:
        for joint in joints:
            yield from _compounds(joint)


def _trimmed(code: str) -> str:
    """Without the punctuation of the sentence around it; the dot of `.net` stays."""
    core = code.lstrip(_HEAD_EDGES).rstrip(_TAIL_EDGES)
    before = code[: len(code) - len(code.lstrip(_HEAD_EDGES))]
    if core[:1].isalpha() and before.endswith(".") and not before.endswith(".."):
        return f".{core}"
    return core


def _camel_parts(text: str) -> list[str]:
    """`getUserName` runs on as one word; its parts are found as well."""
    found: list[str] = []
    for word in _CAMEL.findall(text):
        if len(word) <= MAX_COMPOUND:
            found += [stem(part.lower()) for part in _CAMEL_PART.findall(word) if len(part) > 1]
    return found
