"""Docstrings of functions, in the style of Google, NumPy or reST: the description, and that of each parameter."""


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description of the function, and that of each parameter."""
    if not text:
        return "", {}
    from docstring_parser import DocstringParam, ParseError, parse  # late: most of a program's start-up is imports

    try:
        parsed = parse(text)
    except ParseError:
        return text, {}
    described = {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}
    if not described:
        return text, {}
    lines = [parsed.description or ""]
    for section in parsed.meta:
        # A result in NumPy's style may have a type and no description.
        said = section.description or getattr(section, "type_name", None)
        if said and not isinstance(section, DocstringParam):
            title = " ".join(section.args)
            lines.append(f"{title[:1].upper()}{title[1:]}: {said}")
    return "\n\n".join(line for line in lines if line), described
