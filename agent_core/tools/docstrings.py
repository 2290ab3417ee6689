"""What a function's docstring says of it and of its parameters, in the style of Google, NumPy or reST."""


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and what the parameters' section says of each."""
    if not text:
        return "", {}
    from docstring_parser import parse  # Imported late: most of a program's start-up is imports.
    from docstring_parser.common import DocstringParam, ParseError

    try:
        parsed = parse(text)
    except ParseError:
        return text, {}
    described = {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}
    if not described:
        return text, {}
    lines = [parsed.description or ""]
    for section in parsed.meta:
        # NumPy's style may give the type of a result alone.
        said = section.description or getattr(section, "type_name", None)
        if said and not isinstance(section, DocstringParam):
            title = " ".join(section.args)
            lines.append(f"{title[:1].upper()}{title[1:]}: {said}")
    return "\n\n".join(line for line in lines if line), described
