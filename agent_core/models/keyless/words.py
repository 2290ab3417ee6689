"""Words and values of a text, for the keyless models.

English is compared by stems, Chinese by pairs of neighbouring characters. Nothing here knows any tool.

Texts come from clients. So each is cut to LONGEST_TEXT first. Each repetition in a pattern has a bound if it stands in
another one, or may begin anywhere. So no text can hold up the server.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

LONGEST_TEXT = 2000
"""Characters of a text that are read at most."""

MOST_VALUES = 24
"""Values of one text at most, and phrases."""

HAN = "㐀-䶿一-鿿"

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the is are was were be been do does did has have had will would can could may might shall should must me
        i my we us our you your he she they them his her its it this that these those what which who whom whose why how
        where when and or but if then than so as of in on at for from to into by with about without not no yes all any
        some each there here please tell give get query find show look check know want need use using let make s t re
        ve ll d such e g say hello hi ok thanks thank question tool tools current example""",
    )
)
STOP_PHRASES = (
    "告诉我|怎么样|是什么|有什么|帮我|请问|查询|查一下|看看|一下|什么|怎么|如何|多少|可以|今天|明天|现在|当前|"
    "例如|编号|名称"
)
STOP_CHARACTERS = "的了吗呢是在我你您请把给啊这那个和有与"
PHRASE_END = STOP_WORDS | {"today", "tomorrow", "now", "currently"}

BEFORE, AFTER = r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_-])"
CAPITALISED = r"[A-Z][A-Za-z&'-]{0,40}[A-Za-z]"
NO_STOP_WORD = rf"(?!(?i:{'|'.join(sorted(STOP_WORDS))})(?![A-Za-z]))"
VALUE = (
    r"[\"“「《`](?P<quoted>[^\"“”「」《》`\n]{1,200})[\"”」》`]|(?<!\w)'(?P<single>[^'\n]{1,200})'(?!\w)"
    rf"|{BEFORE}(?:(?P<date>\d{{4}}-\d{{2}}-\d{{2}})|(?P<code>"
    r"(?=[\d_/-]{0,40}[A-Za-z])(?=[A-Za-z_/-]{0,40}\d)[A-Za-z0-9]{1,40}(?:[-_/][A-Za-z0-9]{1,40}){0,5}"
    r")"
    rf"|(?P<name>{NO_STOP_WORD}{CAPITALISED}(?:[ ]{{1,2}}{CAPITALISED}){{0,5}})){AFTER}"
    r"|(?P<number>(?<![A-Za-z0-9_.])-?\d{1,40}(?:\.\d{1,40})?(?![A-Za-z0-9_-]|\.\d))"
)
KINDS = ("quoted", "date", "code", "number", "name", "phrase")
PHRASE = r"(?i)\b(in|at|for|about|of|to|on)\s{1,3}(?:the\s{1,3})?(?=([^,.;:?!\n，。；：？！]{1,80}))"


def is_chinese(text: str) -> bool:
    return re.search(f"[{HAN}]", text[:LONGEST_TEXT]) is not None


def words_of(text: str) -> frozenset[str]:
    """The stems and the pairs of Chinese characters, without stop words."""
    stems = {stem(word) for word in parts_of(text) if word not in STOP_WORDS and not word.isdecimal()}
    return frozenset(stems.union(*({run[i : i + 2] for i in range(max(1, len(run) - 1))} for run in han_runs(text))))


def stem(word: str) -> str:
    """The word without its endings: `cities` and `city` have the same stem, and so have `planned` and `plan`."""
    return re.sub(r"([^lsz])\1$", r"\1", re.sub(r"(?<=\w{3})(?:ies|ing|ed|es|s|e|y)$", "", word))


def parts_of(name: str) -> list[str]:
    """The words of a text or an identifier: `voyageNo`, `voyage_no` and `voyage-no` are all voyage, no."""
    split = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return re.findall(f"(?:(?![{HAN}])[^\\W_])+", re.sub(split, " ", name[:LONGEST_TEXT]).lower())


def han_runs(text: str) -> list[str]:
    """The text's runs of Chinese, without stop words."""
    return re.findall(f"(?:(?![{STOP_CHARACTERS}])[{HAN}])+", re.sub(STOP_PHRASES, " ", text[:LONGEST_TEXT]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value in a text. `cue` is the stem of the word before it, as in `cargo: C-001`. The cue of a phrase is its
    preposition."""

    kind: str
    text: str
    cue: str
    words: frozenset[str]


def values_in(text: str) -> list[Value]:
    """The first MOST_VALUES values in the text, and as many phrases, in the order of KINDS. A name has capitalised
    words; names of several words come first."""
    text = text[:LONGEST_TEXT]
    found = []
    for match in islice(re.finditer(VALUE, text), MOST_VALUES):
        kind = (match.lastgroup or "").replace("single", "quoted")
        found.append(
            (
                kind,
                match[match.lastgroup or 0].strip(),
                stem(["", *parts_of(text[max(0, match.start() - 40) : match.start()])][-1]),
            )
        )
    for match in islice(re.finditer(PHRASE, text), MOST_VALUES):
        words = takewhile(lambda word: word.lower() not in PHRASE_END, match[2].split()[:6])
        found.append(("phrase", " ".join(words).strip("\"'“”"), match[1].lower()))
    found.sort(key=lambda each: (KINDS.index(each[0]), each[0] == "name" and " " not in each[1]))
    return [Value(kind=kind, text=text, cue=cue, words=words_of(text)) for kind, text, cue in found if text]


def chinese_besides(runs: Sequence[str], known: frozenset[str]) -> list[str]:
    """The text's `han_runs` without the `known` words."""
    found = []
    for run in runs[:MOST_VALUES]:
        new = (known.isdisjoint((run[i : i + 2], run[max(0, i - 1) : i + 1])) for i in range(len(run)))
        found += "".join(each if is_new else " " for each, is_new in zip(run, new, strict=True)).split()
    return [each for each in found if len(each) > 1]
