import sqlite3
import unicodedata

import pytest

from deermem.index.fold import fold
from deermem.index.tokens import FTS_TOKENIZE, index_text, pairs, scan, stem


def tokens(*texts: str) -> list[str]:
    return index_text(*texts)[0].split()


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Straße", "strasse"),
        ("İstanbul", "istanbul"),
        ("ＦＵＬＬ ｗｉｄｔｈ", "full width"),
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("Ёлка", "елка"),
        ("Ἀθῆναι", "αθηναι"),
        ("hel\u200blo\u2060", "hello"),
        ("हिन्दी", "हिन्दी"),
        ("٣٤", "34"),
        ("don’t", "don't"),
        ("pre‑edit", "pre-edit"),
        ("ﾊﾝｶﾞｸ", "ハンガク"),
        ("a\ud800b", "a b"),
        ("Łódź Øre Đà ħ", "lodz ore da h"),
        ("IŞIK ışık", "isik isik"),
        ("Cæsar, cœur", "caesar, coeur"),
        ("أحمد إلى آلة کتاب مدرسة", "احمد الي اله كتاب مدرسه"),
        ("בית־ספר", "בית-ספר"),
        ("Ի՞նչ Արա՛մ", "ինչ արամ"),
        ("pass\u3164wo\u115frd ma\u180bn", "password man"),
        ("Hawaiʻi don´t don`t é", "hawai'i don't don't e"),
        ("don`t", "don't"),
        ("Acme™ soap", "acme  soap"),
    ],
)
def test_folding(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use node.js", ["use", "node", "js", ",", "node.js"]),
        ("C++ and GB/s", ["c", "and", "gb", "s", ",", "c++", "gb/s"]),
        (
            "foo_bar pre-edit v1.2.3",
            ["foo", "bar", "pre", "edit", "v1", "2", "3", ",", "foo_bar", "pre-edit", "v1.2.3"],
        ),
        ("src/app/main.py", ["src", "app", "main", "py", ",", "src/app/main.py", "main.py"]),
        ("bob@mail.org", ["bob", "mail", "org", ",", "bob@mail.org", "mail.org"]),
        ("the .NET way.", ["the", "net", "way", ",", ".net"]),
        ("getUserName", ["getusernam", ",", "get", "user", "name"]),
        ("TODO: fix", ["todo", "fix"]),
        ("don't", ["dont"]),
        ("Melanie's", ["melani"]),
        ("O'Brien", ["o", "brien", ",", "obrien"]),
        ("O'Reilly", ["o", "reilli", ",", "oreilli"]),
        ("**bold** [x] (y)", ["bold", "x", "y"]),
    ],
)
def test_words_run_on_and_compounds_follow_a_break(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("成语接龙", ["成语", "语接", "接龙", "龙"]),
        ("雨", ["雨"]),
        ("食べる", ["食べ", "べる", "る"]),
        ("학점인정", ["학점", "점인", "인정", "정"]),
        ("ภาษา", ["ภา", "าษ", "ษา", "า"]),
        ("重跑gen-itgc后", ["重跑", "跑", "gen", "itgc", "后", ",", "gen-itgc"]),
        ("5月3号", ["5", "月", "3", "号", ",", "5月", "3号"]),
    ],
)
def test_runs_are_pairs_and_a_last_character(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize("word", ["हिन्दी", "العربية", "שלום", "தமிழ்", "ქართული"])
def test_words_of_spaced_scripts_survive_whole(word: str) -> None:
    assert tokens(f"a {word}.") == ["a", fold(word)]


def test_emoji_are_tokens() -> None:
    assert tokens("ship🚀it 👍🏽 🇩🇪🇫🇷") == ["ship", "🚀", "it", "👍", "🇩🇪", "🇫🇷"]


def test_composed_and_decomposed_text_make_the_same_tokens() -> None:
    for text in ("학점인정", "café déjà", "が", "русский йод"):
        assert tokens(unicodedata.normalize("NFD", text)) == tokens(unicodedata.normalize("NFC", text))


def test_words_are_stemmed_by_script() -> None:
    assert stem("prefers") == stem("preferring") == "prefer"
    assert stem("русский") == stem("русского") == "русск"
    assert stem("v2s") == "v2s"


def test_a_break_stands_between_texts() -> None:
    assert index_text("blue", "whale") == ("blue , whale", 3)
    assert index_text() == ("", 0)
    assert index_text("", "?!") == ("", 0)


def test_a_title_taken_from_its_content_counts_once() -> None:
    assert tokens("Blue whale", "Blue whale: it sings", "sea") == ["blue", "whale", "it", "sing", ",", "sea"]
    assert tokens("Auto", "Automatic") == ["auto", ",", "automat"]
    long = "word " * 31 + "automatic"
    assert tokens(long[:160], long) == tokens(long)


def test_overlong_compounds_are_found_by_their_parts() -> None:
    text = "/".join(["folder"] * 20) + "/main.py"
    assert scan(text).compounds == ("main.py",)


def test_pairs_of_one_character_are_none() -> None:
    assert pairs("雨") == []


def test_fts5_keeps_every_token_as_it_is() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize={FTS_TOKENIZE})")
    body, length = index_text("C++ a.b/c-d x_y #t $h 100% k=v e@f n~m p^q r&s 天玩 🚀 हिन्दी C:\\dir don't")
    connection.execute("INSERT INTO words(body) VALUES (?)", (body,))
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, words, instance)")
    stored = [row[0] for row in connection.execute("SELECT term FROM terms ORDER BY offset")]
    connection.close()
    assert stored == body.split()
    assert len(stored) == length
