"""Words and values of a text, for the keyless model: what it is about, and what it names.

English is compared by stems, Chinese by pairs of neighbouring characters. Nothing here knows any tool.
Texts come from clients, so each is cut to LONGEST_TEXT before it is read and every repeat that stands
inside another, or may begin anywhere, is bounded: no text can hold up the server.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

LONGEST_TEXT = 2000
"""Characters that are looked at; the rest of a longer text is not."""

MOST_VALUES = 24
"""Values, and phrases, that are looked at in one text."""

HAN = "㐀-䶿一-鿿"


def listed(words: str) -> frozenset[str]:
    """The words of a list that is written as text."""
    return frozenset(words.split())


STOP_WORDS = listed(
    """a an the is are was were be been being am do does did has have had having will would can could may might
    shall should must i me my mine we us our you your he she they them his her its it this that these those their
    what which who whom whose why how and or but if then than so as of in on at for from to into by with about
    without not no yes all any some each there here please tell give get query find show look lookup check know
    want need use using let make s t re ve ll d such e g like say hello hi ok thanks thank question questions tool
    current given return returns example"""
)
STOP_PHRASES = (
    "告诉我|怎么样|为什么|是什么|有什么|帮我|请问|查询|查一下|查看|看看|一下|什么|怎么|如何|多少|知道|可以|今天|明天|现在|"
    "目前|当前|能否|例如|比如|编号|名称|号码"
)
STOP_CHARACTERS = "的了吗呢是在我你您请们把给吧啊这那个和有"
CUE_FILLERS = listed("no nr number id code name named called is the")
PHRASE_END = listed("today tomorrow yesterday now right currently tonight please and or is are was were")
PREPOSITIONS = listed("in at for about of to on")

BEFORE, AFTER = r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_-])"
CODE = r"(?=[\d_/-]{0,40}[A-Za-z])(?=[A-Za-z_/-]{0,40}\d)[A-Za-z0-9]{1,40}(?:[-_/][A-Za-z0-9]{1,40}){0,5}"
DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?"
NUMBER = r"(?<![A-Za-z0-9_.])-?\d{1,40}(?:\.\d{1,40})?(?![A-Za-z0-9_-]|\.\d)"
CAPITALISED = r"[A-Z][A-Za-z&'-]{0,40}[A-Za-z]"
VALUE = (
    r"[\"“「《`](?P<quoted>[^\"“”「」《》`\n]{1,200})[\"”」》`]|(?<!\w)'(?P<single>[^'\n]{1,200})'(?!\w)"
    rf"|{BEFORE}(?:(?P<date>{DATE})|(?P<code>{CODE})|(?P<name>{CAPITALISED}(?:[ ]{{1,2}}{CAPITALISED}){{0,5}})){AFTER}"
    rf"|(?P<number>{NUMBER})"
)
KINDS = ("quoted", "date", "code", "number", "name")
PHRASE = r"(?i)\b(in|at|for|about|of|to|on)\s{1,3}(?:the\s{1,3})?(?=([^,.;:?!\n，。；：？！]{1,80}))"


def is_chinese(text: str) -> bool:
    return re.search(f"[{HAN}]", text[:LONGEST_TEXT]) is not None


def words_of(text: str) -> frozenset[str]:
    """The stems and the pairs of Chinese characters that carry meaning."""
    text = text[:LONGEST_TEXT]
    found = set()
    for word in re.findall(rf"(?:(?![{HAN}])[^\W_])+(?:'[a-z]+)?", _split_case(text).replace("’", "'").lower()):
        word = word.partition("'")[0]
        if word not in STOP_WORDS and not word.isdecimal():
            found.add(stem(word))
    for run in _han_runs(text):
        found.update(run[i : i + 2] for i in range(max(1, len(run) - 1)))
    return frozenset(found)


def stem(word: str) -> str:
    """The word without the endings of its forms: `cities` is `city`, `planned` is `plan`."""
    if len(word) > 3:
        if word.endswith("ies"):
            word = word[:-3] + "y"
        elif word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
            word = word[:-2]
        elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
            word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and re.search("[aeiouy]", root):
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
    return word.removesuffix("e") if len(word) > 3 else word


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of an identifier: `voyageNo`, `voyage_no` and `voyage-no` are all (voyage, no)."""
    return tuple(re.findall(r"[^\W_]+", _split_case(name[:LONGEST_TEXT]).lower()))


def is_code(text: str) -> bool:
    """Whether the text looks like a reference: one word with letters and digits."""
    return re.fullmatch(CODE, text[:LONGEST_TEXT]) is not None


def _split_case(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)


def _han_runs(text: str) -> list[str]:
    return re.findall(f"(?:(?![{STOP_CHARACTERS}])[{HAN}])+", re.sub(STOP_PHRASES, " ", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Something that a text names. `cue` is the stem of the word before it, as in `cargo no. C-001`.

    `head`: the letters that a code begins with, None for all that is no code.
    """

    kind: str
    text: str
    cue: str
    head: str | None


def values_in(text: str) -> tuple[Value, ...]:
    """The first MOST_VALUES values that stand in the text: quoted, date, code, number, name; in this order.

    A name is a phrase of capitalised words, without a first word that is so only because it begins a
    sentence; names of several words come first.
    """
    text = text[:LONGEST_TEXT]
    shouted = not re.search(f"[a-z{HAN}]", text)  # Where all is in capitals, capitals say nothing.
    found = []
    for match in islice(re.finditer(VALUE, text), MOST_VALUES):
        kind = match.lastgroup or ""
        value, start = match[kind].strip(), match.start(kind)
        if kind == "name":
            value = "" if shouted else _name(value, text[max(0, start - 10) : start].rstrip(" "))
        elif kind in ("quoted", "single"):
            kind = "date" if re.fullmatch(DATE, value) else "quoted"
        if value:
            before = parts_of(text[max(0, start - 40) : start] + match[0][: match[0].find(value)])
            cue = next((stem(word) for word in reversed(before) if word not in CUE_FILLERS), "")
            head = re.split("[^A-Za-z]", value, maxsplit=1)[0] if is_code(value) else None
            found.append(Value(kind=kind, text=value, cue=cue, head=head))
    return tuple(sorted(found, key=lambda each: (KINDS.index(each.kind), each.kind == "name" and " " not in each.text)))


def _name(value: str, before: str) -> str:
    first, _, rest = value.partition(" ")
    begins = not before or before[-1] in ".!?。！？:：\n"
    name = rest.strip() if begins and not first.isupper() else value
    return "" if name.lower() in STOP_WORDS else name


def phrases_in(text: str) -> Iterator[tuple[str, str]]:
    """The first MOST_VALUES prepositions of the text, each with the phrase after it."""
    for match in islice(re.finditer(PHRASE, text[:LONGEST_TEXT]), MOST_VALUES):
        words = match[2].split()[:6]
        end = next((i for i, word in enumerate(words) if word.lower() in PHRASE_END | PREPOSITIONS), len(words))
        if phrase := " ".join(words[:end]).strip("\"'“”"):
            yield match[1].lower(), phrase


def chinese_besides(text: str, known: frozenset[str]) -> list[str]:
    """What is left of the text's Chinese when the words that are `known` are taken away."""
    found = []
    for run in _han_runs(text[:LONGEST_TEXT])[:MOST_VALUES]:
        marked = list(run)
        for index in range(len(run) - 1):
            if run[index : index + 2] in known:
                marked[index] = marked[index + 1] = " "
        found += [piece for piece in "".join(marked).split() if len(piece) > 1]
    return found
