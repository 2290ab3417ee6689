"""Small faults in a source text: which ones could be sown, each as pieces of text to be replaced.

A fault is a comparison, a boolean or a condition turned round, a number moved by one, a call, a raise or an assignment
to a member left out, or two neighbouring effects in the other order. Left alone is what no test asserts here: log
lines, decorators, annotations, asserts for the type checker, and defaults and other numbers outside functions.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
"""What stands in for each comparison."""

Piece = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault. `pieces` are what is replaced: from, to (bytes of the source), and by what."""

    path: str
    line: int
    what: str
    pieces: tuple[Piece, ...]

    def sown_in(self, source: bytes) -> bytes:
        """The source with the fault."""
        for begin, end, new in sorted(self.pieces, reverse=True):
            source = source[:begin] + new + source[end:]
        return source

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """All faults that can be sown in the file."""
    return list(_Finder(path, source).walk(ast.parse(source)))


class _Finder:
    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def walk(self, node: ast.AST, inside: bool = False) -> Iterator[Mutant]:
        """The faults of this node and of all below it; `inside` a function."""
        if isinstance(node, ast.stmt):
            yield from self._left_out(node)
        elif isinstance(node, ast.expr):
            yield from self._turned_round(node, inside)
        yield from self._negated(node)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in _below(node):
            yield from self.walk(child, inside and not isinstance(child, ast.arguments))
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list):
                yield from self._swapped(body)

    def _turned_round(self, node: ast.expr, inside: bool) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                for at, op in enumerate(ops):
                    new = [*ops[:at], OTHER[type(op)](), *ops[at + 1 :]]
                    yield self._instead(node, ast.Compare(left, new, others))
            case ast.BoolOp(op=op, values=values):
                yield self._instead(node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._instead(node, operand)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                yield self._instead(node, ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right))
            case ast.Constant(value=bool() as value):
                yield self._instead(node, ast.Constant(not value))
            case ast.Constant(value=int() | float() as value) if inside:
                yield self._instead(node, ast.Constant(value + 1))
                yield self._instead(node, ast.Constant(value - 1))

    def _negated(self, node: ast.AST) -> Iterator[Mutant]:
        """Conditions that are no comparison."""
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not _turns(node.test):
            yield self._instead(node.test, ast.UnaryOp(ast.Not(), node.test))
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                if not _turns(test):
                    yield self._instead(test, ast.UnaryOp(ast.Not(), test))

    def _left_out(self, node: ast.stmt) -> Iterator[Mutant]:
        if _is_effect(node) or isinstance(node, ast.Raise):
            yield self._mutant(node, f"left out: {_short(node)}", (*self._span(node), b"pass"))

    def _swapped(self, body: Sequence[ast.stmt]) -> Iterator[Mutant]:
        for first, second in pairwise(body):
            if _is_effect(first) and _is_effect(second) and (_calls(first) or _calls(second)):
                one, two = self._span(first), self._span(second)
                yield self._mutant(
                    first,
                    f"swapped: {_short(first)} / {_short(second)}",
                    (*one, self._source[slice(*two)]),
                    (*two, self._source[slice(*one)]),
                )

    def _instead(self, node: ast.expr, other: ast.expr) -> Mutant:
        text = ast.unparse(other)
        return self._mutant(node, f"{_short(node)} → {text[:60]}", (*self._span(node), f"({text})".encode()))

    def _mutant(self, node: ast.stmt | ast.expr, what: str, *pieces: Piece) -> Mutant:
        return Mutant(path=self._path, line=node.lineno, what=what, pieces=pieces)

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """The children that faults are sown in."""
    left_alone = {"annotation", "returns", "decorator_list", "keywords" if isinstance(node, ast.ClassDef) else ""}
    for name, value in ast.iter_fields(node):
        if name not in left_alone:
            for child in value if isinstance(value, list) else [value]:
                # Before Python 3.12 what stands in an f-string has no place of its own.
                if (
                    isinstance(child, ast.AST)
                    and not isinstance(child, ast.JoinedStr | ast.Assert)
                    and not _logs(child)
                ):
                    yield child


def _is_effect(node: ast.stmt) -> bool:
    """Whether the statement does something and binds no name."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom() | ast.Yield()):
            return not _logs(node)
        case ast.Assign(targets=targets):
            return all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)
        case ast.AugAssign() | ast.Delete():
            return True
    return False


def _calls(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr)


def _turns(test: ast.expr) -> bool:
    """Whether the condition is turned round as the expression that it is."""
    return isinstance(test, ast.Compare | ast.BoolOp | ast.Constant) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _logs(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("logger.")


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else text[:69] + "…"
