"""How sure the model is of its answer: the question for it, and the score in its reply."""

import re
import unicodedata

QUESTION = (
    "How sure are you that your last answer is right and complete, judged only by what this conversation shows? "
    "Reply with nothing but a whole number from 0 (not at all) to 100 (certain)."
)

LONGEST = 4_000
"""Only this many characters of a reply are read."""

_RANGE = re.compile(r"\d+\s{0,3}(?:[-–—~]|to|and|到|至)\s{0,3}\d+", re.IGNORECASE)
_NUMBER = r"(?<![A-Za-z0-9_.,−–-])(\d{1,6}(?:[.,]\d{1,6})?)(?![A-Za-z0-9]|[.,]\d)"
_AMOUNT = _NUMBER + r"\s{0,3}(?:(%|per ?cent\b)|(?:/|out of\b)\s{0,3}(\d{1,6}))?"
_ANY = re.compile(_AMOUNT, re.IGNORECASE)
_NAMED = re.compile(r"(?:score|confidence|certainty|置信度|信心|评分|分数)[^0-9\n−–-]{0,20}" + _AMOUNT, re.IGNORECASE)


def score_of(reply: str) -> float | None:
    """The score in a model's reply, from 0 to 1, or None if it is not clear.

    Reads `85`, `0.85`, `85%`, `8.5/10`, `17 out of 20`, `{"score": 85}`, and each of these in a sentence. Of several
    numbers, a named score counts first, then a percentage, then a fraction. A bare number counts only if it is the only
    one. It is a share if it has a decimal point and is at most 1, else it is out of 100.
    """
    text = _RANGE.sub(" ", unicodedata.normalize("NFKC", reply[:LONGEST]))
    named = _NAMED.search(text)
    if named is not None:
        return _share(*named.groups())
    found = [match.groups() for match in _ANY.finditer(text)]
    for unit in (1, 2):
        for each in found:
            if each[unit] is not None:
                return _share(*each)
    return _share(*found[0]) if len(found) == 1 else None


def _share(number: str, percent: str | None, whole: str | None) -> float | None:
    value = float(number.replace(",", "."))
    if whole is not None:
        most = float(whole)
    else:
        share = percent is None and value <= 1 and not number.isdigit()
        most = 1.0 if share else 100.0
    return value / most if most > 0 and value <= most else None
