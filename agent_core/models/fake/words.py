"""Words and values of a text, for the keyless model: what it is about, and what it names.

English is compared by stems, Chinese by pairs of neighbouring characters. Nothing here knows any tool.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_TEXT = 4000
"""Characters that are looked at; a longer text is cut, so that no question can hold up the server."""

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

VERBS = listed("query get fetch find lookup look read show check retrieve load do run")
"""Verbs that begin the names of tools and say nothing to a reader of an answer."""

STOP_PHRASES = (
    "告诉我|怎么样|为什么|是什么|有什么|帮我|请问|查询|查一下|查看|看看|一下|什么|怎么|如何|多少|知道|可以|今天|明天|现在|"
    "目前|当前|能否|例如|比如|编号|名称|号码"
)
STOP_CHARACTERS = "的了吗呢是在我你您请们把给吧啊这那个和有"

CODE = r"[A-Za-z0-9]+(?:[-_/][A-Za-z0-9]+)*"
BEFORE, AFTER = r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_-])"
CAPITALS = rf"{BEFORE}[A-Z][A-Z0-9&'-]*[A-Z0-9](?:[ ]+[A-Z0-9][A-Z0-9&'-]*)*{AFTER}"
TITLES = rf"{BEFORE}[A-Z][a-z]+(?:[ ]+[A-Z][A-Za-z]+)*{AFTER}"
QUOTED = r"\"([^\"\n]+)\"|“([^”\n]+)”|「([^」\n]+)」|《([^》\n]+)》|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)"
LINKS = r"https?://[^\s<>\"“”，。]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
DATES = rf"{BEFORE}\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}})?(?:Z|[+-]\d{{2}}:?\d{{2}})?)?{AFTER}"
NUMBERS = r"(?<![A-Za-z0-9_.])-?\d+(?:\.\d+)?(?![A-Za-z0-9_-]|\.\d)"
SENTENCE_START = r"(?:^|[.!?。！？:：\n])\s*$"
PREPOSITIONS = ("in", "at", "for", "about", "of", "to", "on")
PHRASE_END = listed("today tomorrow yesterday now right currently tonight please and or is are was were")


def is_chinese(text: str) -> bool:
    return re.search(f"[{HAN}]", text) is not None


def words_of(text: str, *, single: bool = False) -> frozenset[str]:
    """The stems and Chinese pairs that carry meaning; with `single` each Chinese character too."""
    text = text[:LONGEST_TEXT]
    spaced = _split_case(text).replace("’", "'")
    found = set()
    for word in re.findall(rf"(?:(?![{HAN}])[^\W_])+(?:'[a-z]+)?", spaced.lower()):
        word = word.partition("'")[0]
        if word not in STOP_WORDS and not word.isdecimal():
            found.add(_stem(word))
    for run in han_runs(text):
        found.update(run[i : i + 2] for i in range(max(1, len(run) - 1)))
        if single:
            found.update(run)
    return frozenset(found)


def han_runs(text: str) -> list[str]:
    """The stretches of Chinese between everything that carries no meaning."""
    return re.findall(f"(?:(?![{STOP_CHARACTERS}])[{HAN}])+", re.sub(STOP_PHRASES, " ", text))


def _stem(word: str) -> str:
    if len(word) > 3:
        if word.endswith("ies"):
            word = word[:-3] + "y"
        elif re.search(r"(?:[sxz]|ch|sh|o)es$", word):
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
    return tuple(re.findall(r"[^\W_]+", _split_case(name).lower()))


def _split_case(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)


def title_of(name: str) -> str:
    """A tool's name as a title: `query_vessel_schedule` is `Vessel schedule`."""
    parts = parts_of(name)
    if len(parts) > 1 and parts[0] in VERBS:
        parts = parts[1:]
    return " ".join(parts)[:1].upper() + " ".join(parts)[1:]


def shape_of(text: str) -> str:
    """What a value looks like: `V-2609A` is `a-9a`, and a phrase of words is `a`."""
    shape = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))
    return re.sub(r"a(?: a)+", "a", shape)


def is_code(text: str) -> bool:
    """Whether the text looks like a reference: one word with letters and digits."""
    return bool(re.fullmatch(CODE, text) and re.search(r"\d", text) and re.search("[A-Za-z]", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Something that a text names, and where it begins there."""

    kind: str
    text: str
    start: int


def values_in(text: str) -> tuple[Value, ...]:
    """The values that stand in the text: quoted, link, date, code, number, name; in this order.

    A name is a phrase in capitals or one that is capitalised within a sentence; those of several
    words come first.
    """
    text = text[:LONGEST_TEXT]
    left = text
    found: list[Value] = []
    for kind, pattern in (("quoted", QUOTED), ("link", LINKS), ("date", DATES), ("code", f"{BEFORE}{CODE}{AFTER}")):
        for match in re.finditer(pattern, left):
            value = next((group for group in match.groups() if group), match.group())
            if kind != "code" or is_code(value):
                quoted_date = kind == "quoted" and re.fullmatch(DATES, value)
                found.append(Value(kind="date" if quoted_date else kind, text=value.strip(), start=match.start()))
                left = left[: match.start()] + "|" * len(match.group()) + left[match.end() :]
    found += [Value(kind="number", text=match.group(), start=match.start()) for match in re.finditer(NUMBERS, left)]
    return (*found, *_names_in(left))


def _names_in(text: str) -> list[Value]:
    found = []
    if re.search(f"[a-z{HAN}]", text):  # Where all is in capitals, capitals say nothing.
        found = [Value(kind="name", text=each.group(), start=each.start()) for each in re.finditer(CAPITALS, text)]
    for match in re.finditer(TITLES, text):
        words = match.group().split()
        if re.search(SENTENCE_START, text[: match.start()]):
            words = words[1:]  # The first word of a sentence is capitalised whatever it is.
        if words and " ".join(words).lower() not in STOP_WORDS:
            found.append(Value(kind="name", text=" ".join(words), start=match.end() - len(" ".join(words))))
    return sorted(found, key=lambda each: " " not in each.text)


def phrases_in(text: str, known: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Phrases that may be a free text's value, each with the preposition before it.

    In Chinese it is what is left when the words that are `known` (a tool's own) are taken away.
    """
    text = text[:LONGEST_TEXT]
    for preposition in PREPOSITIONS:
        for match in re.finditer(rf"\b{preposition}\s+(?:the\s+)?([^,.;:?!\n，。；：？！]+)", text, re.IGNORECASE):
            phrase = _cut(match.group(1).split()[:6])
            if phrase:
                yield preposition, phrase
    for run in han_runs(text):
        for piece in _without(run, known):
            yield "", piece


def _cut(words: list[str]) -> str:
    for index, word in enumerate(words):
        if word.lower() in PHRASE_END or word.lower() in PREPOSITIONS:
            words = words[:index]
            break
    return " ".join(words).strip("\"'“”")


def _without(run: str, known: frozenset[str]) -> list[str]:
    marked = list(run)
    for index in range(len(run) - 1):
        if run[index : index + 2] in known:
            marked[index] = marked[index + 1] = " "
    return [piece for piece in "".join(marked).split() if len(piece) > 1]
