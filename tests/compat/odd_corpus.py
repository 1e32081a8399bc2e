"""Files as people, editors and other programs leave them, and what each must say."""

from __future__ import annotations

from dataclasses import dataclass, field

from deermem.model.values import JsonValue


@dataclass(frozen=True)
class Odd:
    """A file that is served. `title` "" is not asked; `extra` and `values` name what must be among them.

    `anew`: its front matter can't be edited line by line, so a rewrite writes it anew. `letterhead`: what stands
    between its fences is no front matter.
    """

    data: bytes
    content: str
    title: str = ""
    fact_id: str = ""
    values: dict[str, object] = field(default_factory=dict)
    extra: dict[str, JsonValue] = field(default_factory=dict)
    anew: bool = False
    letterhead: bool = False


@dataclass(frozen=True)
class Refused:
    """A file that is not served: `code` and `line` of what is said of it."""

    data: bytes
    code: str
    line: int


def fm(keys: str, body: str = "Text.\n", *, end: str = "---") -> bytes:
    return f"---\n{keys}\n{end}\n\n{body}".encode()


BOM = b"\xef\xbb\xbf"
LONG = "long " * 2000
KEYS_200 = "\n".join(f"key{number}: value {number}" for number in range(200))

ODD: dict[str, Odd | Refused] = {
    # --- what public reports told of (the row's number in the name)
    "m1-unquoted-colon": Refused(fm("title: L2 (Split: Core)"), "yaml", 2),
    "m2-bare-date": Odd(
        fm("createdAt: 2026-04-05\nseen: 2026-04-06"), "Text.", values={"year": 2026}, extra={"seen": "2026-04-06"}
    ),
    "m2-impossible-date": Refused(fm("category: goal\ncreatedAt: 2026-13-45"), "bad-timestamp", 3),
    "m2-impossible-date-of-mine": Odd(fm("due: 2026-13-45"), "Text.", extra={"due": "2026-13-45"}),
    "m3-null-title": Odd(fm("title:"), "Text.", "Text.", extra={"title": None}),
    "m3-none-title": Odd(fm("title: None"), "Text.", "Text.", extra={"title": "None"}),
    "m6-bom": Odd(BOM + fm("category: goal"), "Text.", values={"category": "goal"}),
    "m6-bom-crlf": Odd(
        BOM + fm("category: goal\nmine: x", "# T\n\nOne\nTwo\n").replace(b"\n", b"\r\n"),
        "One\nTwo",
        "T",
        values={"category": "goal"},
        extra={"mine": "x"},
    ),
    "m7-letterhead": Odd(b"---\nACME Ltd\n---\ntext\n", "---\nACME Ltd\n---\ntext", letterhead=True),
    "m10-blank-behind-fences": Odd(b"--- \ncategory: goal\n---\t \n\nText.\n", "Text.", values={"category": "goal"}),
    "m12-crlf-head-lf-body": Odd(
        b"---\r\ncategory: goal\r\n---\r\n\n# T\n\nOne\nTwo\n", "One\nTwo", "T", values={"category": "goal"}
    ),
    "m14-comments-everywhere": Odd(
        fm("# first\ncategory: goal # why\n\n# between\nmine: [a, b] # list\n  # indented\nlast: 1\n# end"),
        "Text.",
        values={"category": "goal"},
        extra={"mine": ["a", "b"], "last": 1},
    ),
    "m15-hard-breaks-and-references": Odd(
        b"One  \ntwo\\\nthree [ref][1]\n\n[1]: https://example.org 'T'\n",
        "One  \ntwo\\\nthree [ref][1]\n\n[1]: https://example.org 'T'",
    ),
    "m16-nul": Refused(b"a\x00b\n", "nul", 1),
    "m18-tags-with-commas": Odd(fm("tags: a, b"), "Text.", values={"topics": ("a", "b")}, extra={"tags": "a, b"}),
    "m20-lone-rule-on-top": Odd(b"---\n\ntext\n", "---\n\ntext"),
    "d1-null-confidence": Odd(fm("confidence: null"), "Text.", values={"confidence": 0.5}),
    "d1-quoted-confidence": Odd(fm('confidence: "0.9"'), "Text.", values={"confidence": 0.9}),
    "d2-only-white-space": Refused(b"  \n\t\n", "empty-file", 1),
    # --- what YAML makes of a word
    "category-no": Odd(fm("category: no"), "Text.", values={"category": "no"}),
    "octal-id": Odd(fm("id: 0123"), "Text.", fact_id="0123"),
    "sexagesimal": Odd(fm("at: 12:30:45\nsource: 12:30:45"), "Text.", extra={"at": "12:30:45"}),
    "exponent": Odd(fm("confidence: 9e-1\nn: 9e-1"), "Text.", values={"confidence": 0.9}, extra={"n": "9e-1"}),
    "yes-and-no-keys": Odd(fm("no: x\nyes: no\non: off"), "Text.", extra={"no": "x", "yes": "no", "on": "off"}),
    "tilde-and-empty": Odd(fm("a: ~\nb:\nc: ''"), "Text.", extra={"a": None, "b": None, "c": ""}),
    "version-number": Odd(fm("version: 1.10\nport: 0x1F"), "Text.", extra={"version": "1.10", "port": "0x1F"}),
    "infinite-confidence": Refused(fm("category: goal\nconfidence: .inf"), "bad-number", 3),
    "percent-confidence": Refused(fm("confidence: 95"), "bad-number", 2),
    "numeric-keys": Odd(fm("1: one\n2.5: two"), "Text.", extra={"1": "one", "2.5": "two"}),
    "tagged-value": Odd(fm("a: !!str 12\nb: !mine x"), "Text.", extra={"a": "12", "b": "x"}),
    "duplicate-keys": Refused(fm("a: 1\nb: 2\na: 3"), "duplicate-key", 4),
    "anchor-alone": Odd(fm("a: &x one\nb: two"), "Text.", extra={"a": "one", "b": "two"}),
    "anchor-and-alias": Refused(fm("a: &x one\nb: *x"), "alias", 3),
    "merge-key": Refused(fm("base: &b {x: 1}\nmine:\n  <<: *b"), "alias", 4),
    "cyclic": Refused(fm("a: &a [*a]"), "alias", 2),
    "list-as-front-matter": Refused(b"---\n- one\n- two\n---\n\nText.\n", "not-a-mapping", 2),
    "block-scalars": Odd(
        fm("a: |\n  one\n  two\nb: >-\n  folded\n  text\nlast: x"),
        "Text.",
        extra={"a": "one\ntwo\n", "b": "folded text", "last": "x"},
    ),
    "multi-line-plain": Odd(fm("a: one\n  two\nb: 'x\n  y'"), "Text.", extra={"a": "one two", "b": "x y"}),
    "flow-over-lines": Odd(fm("a: [x,\n  y, # here\n  z]\nb: {c: 1,\n  d: 2}"), "Text.", extra={"a": ["x", "y", "z"]}),
    "whole-in-braces": Odd(
        b"---\n{category: goal, mine: [1, 2]}\n---\n\nText.\n",
        "Text.",
        values={"category": "goal"},
        extra={"mine": [1, 2]},
        anew=True,
    ),
    "nested-lists": Odd(fm("a:\n- - 1\n  - 2\n- - 3\nb:\n  - x: 1\n    y: 2"), "Text.", extra={"a": [[1, 2], [3]]}),
    "tab-indent": Refused(fm("a:\n\tb: 1"), "yaml", 3),
    "tab-behind-colon": Odd(fm("mine:\tvalue"), "Text.", extra={"mine": "value"}),
    "no-closing-fence": Refused(b"---\ncategory: goal\n\nText.\n", "no-closing-fence", 1),
    "document-end-mark": Refused(fm("category: goal", end="..."), "no-closing-fence", 1),
    "document-end-inside": Odd(
        b"---\ncategory: goal\n...\n---\n\nText.\n", "Text.", values={"category": "goal"}, anew=True
    ),
    "two-documents": Refused(b"---\na: 1\n--- # two\nb: 2\n---\n\nText.\n", "yaml", 3),
    "emoji-keys": Odd(
        fm("🚀: liftoff\nñandú: 'sí'\n日本: 語"), "Text.", extra={"🚀": "liftoff", "ñandú": "sí", "日本": "語"}
    ),
    "quoted-keys": Odd(fm("'my key': 1\n\"other: key\": 2"), "Text.", extra={"my key": 1, "other: key": 2}),
    "two-hundred-keys": Odd(fm(KEYS_200), "Text.", extra={"key0": "value 0", "key199": "value 199"}),
    "very-long-line": Odd(f"# Long\n\n{LONG}\n".encode(), LONG.strip(), "Long"),
    "long-value": Odd(fm(f"mine: {LONG.strip()}"), "Text.", extra={"mine": LONG.strip()}),
    "empty-front-matter": Odd(b"---\n---\n\nText.\n", "Text."),
    "comment-only-front-matter": Odd(b"---\n# nothing yet\n---\n\nText.\n", "Text."),
    "blank-lines-in-front-matter": Odd(fm("\ncategory: goal\n\n\nmine: 1\n"), "Text.", extra={"mine": 1}),
    # --- bodies
    "windows-1252": Refused("Caf\xe9 prefers\n".encode("cp1252"), "not-utf8", 1),
    "utf-16": Refused("\ufeffText.\n".encode("utf-16-le"), "nul", 1),
    "fences-in-code": Odd(
        b"# T\n\n```yaml\n---\na: b\n---\n```\n\nafter\n", "```yaml\n---\na: b\n---\n```\n\nafter", "T"
    ),
    "front-matter-in-body": Odd(fm("mine: 1", "# T\n\n---\nid: other\n---\nx\n"), "---\nid: other\n---\nx", "T"),
    "html-comments": Odd(
        b"<!-- generated -->\n# T\n\nText <!-- inside\nstill --> end\n",
        "<!-- generated -->\n# T\n\nText <!-- inside\nstill --> end",
    ),
    "second-heading": Odd(b"# One\n\n# Two\n\nText.\n", "# Two\n\nText.", "One"),
    "heading-only": Odd(b"# Deploys on Thursdays\n", "Deploys on Thursdays", "Deploys on Thursdays"),
    "setext-heading": Odd(b"Title\n=====\n\nText.\n", "Title\n=====\n\nText.", "Title"),
    "deep-heading": Odd(b"## Two\n\nText.\n", "## Two\n\nText.", "Two"),
    "blank-heading": Odd(b"#  \n\nText.\n", "Text.", "Text."),
    "indented-code": Odd(b"# T\n\n    code first\n\ttab\n", "    code first\n\ttab", "T"),
    "unicode-separators": Odd(
        "One\u2028two\u2029three\u0085four\x0bfive\x0csix\n".encode(),
        "One\u2028two\u2029three\u0085four\x0bfive\x0csix",
    ),
    "lone-carriage-returns": Odd(b"One\rtwo\rthree\n", "One\rtwo\rthree"),
    "no-newline-at-end": Odd(b"---\nmine: 1\n---\nText.", "Text.", extra={"mine": 1}),
    "many-newlines-at-end": Odd(fm("mine: 1", "Text.\n\n\n   \n"), "Text."),
    "right-to-left": Odd("# עברית\n\nالعربية \u200ftext\u200e\n".encode(), "العربية \u200ftext\u200e", "עברית"),
    "decomposed": Odd("# Cafe\u0301\n\nCafe\u0301 한\n".encode(), "Cafe\u0301 한", "Cafe\u0301"),
    # --- other programs' notes
    "obsidian": Odd(
        fm(
            "aliases:\n  - Deploy day\n  - release\ntags:\n  - ops/deploy\n  - 2024\ncssclasses: [wide]\n"
            'parent: "[[Home]]"\ncreated: 2024-01-05T10:22',
            "# Deploys\n\nSee [[Release notes|notes]] and ![[image.png]] #ops\n\n^block-1\n",
        ),
        "See [[Release notes|notes]] and ![[image.png]] #ops\n\n^block-1",
        "Deploys",
        values={"topics": ("ops/deploy", "2024")},
        extra={"aliases": ["Deploy day", "release"], "parent": "[[Home]]"},
    ),
    "obsidian-unquoted-link": Odd(fm("parent: [[Home]]"), "Text.", extra={"parent": [["Home"]]}),
    "obsidian-tags-null": Odd(fm("tags:\naliases:"), "Text.", values={"topics": ()}),
    "jekyll": Odd(
        fm("layout: post\ntitle: 'My \"post\"'\ndate: 2024-05-01 10:00:00 +0200\ncategories: [a, b]\npublished: true"),
        "Text.",
        'My "post"',
        extra={"layout": "post", "published": True, "categories": ["a", "b"]},
    ),
    "jekyll-liquid": Refused(fm("permalink: /x\ntitle: {{ page.title }}"), "bad-key", 3),
    "hugo": Odd(
        fm("title: A page\ndate: 2024-05-01\ndraft: false\nparams:\n  weight: 5\n  menu: {main: {name: x}}"),
        "Text.",
        "A page",
        extra={"draft": False, "params": {"weight": 5, "menu": {"main": {"name": "x"}}}},
    ),
    "hugo-toml": Odd(b"+++\ntitle = 'x'\n+++\n\nText.\n", "+++\ntitle = 'x'\n+++\n\nText."),
    "logseq": Odd(b"- type:: note\n- text\n\t- nested\n", "- type:: note\n- text\n\t- nested"),
    "archived-by-hand": Refused(fm("category: goal\nstatus: archived"), "bad-status", 3),
    "newer-version": Refused(fm("schemaVersion: 3"), "newer-version", 2),
    "topics-as-mapping": Refused(fm("topics: {a: 1}"), "bad-type", 2),
    "bad-id": Refused(fm("id: ../escape"), "bad-id", 2),
    "foreign-owner": Refused(fm("user_id: bob"), "wrong-owner", 0),
    "same-owner": Odd(fm("user_id: alice\nagent_name: Coder"), "Text."),
    "two-places-of-the-digest": Odd(fm("digest: nonsense # mine\nmine: 1"), "Text.", extra={"mine": 1}),
}
