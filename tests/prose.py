"""Sentences of the documents, docstrings and comments that are too long to read at once.

``python tests/prose.py`` lists them, the longest first; file names as arguments select some.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST = 40  # words in a sentence
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|et al|fig|eq|vs|cf|approx)\. ", re.IGNORECASE)
KEPT = "\0"  # stands for a space that ends no sentence


class Paragraph(NamedTuple):
    """Text that belongs together, with the line where it begins."""

    line: int
    text: str


class Sentence(NamedTuple):
    """A sentence that is too long."""

    words: int
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.words} words: {self.text}"


def long_sentences(paths: Iterable[Path]) -> list[Sentence]:
    """Return the sentences of more than LONGEST words, the longest first."""
    found = []
    for path in paths:
        for line, text in paragraphs(path):
            for sentence in split(text):
                words = count_words(sentence)
                if words > LONGEST:
                    found.append(Sentence(words, path, line, sentence))
    return sorted(found, reverse=True)


def split(text: str) -> list[str]:
    """Split a paragraph into sentences.

    >>> split("See fig. 1, e.g. the line of `a.b`. Then go on!")
    ['See fig. 1, e.g. the line of `a.b`.', 'Then go on!']
    """
    text = ABBREVIATIONS.sub(lambda found: found[0][:-1] + KEPT, text)
    parts = re.split(r"(?<=[.!?])[*_)\"']*\s(?=\W*[A-Z0-9`_])", text)
    return [part.replace(KEPT, " ") for part in parts]


def count_words(sentence: str) -> int:
    """Count the words of a sentence; a piece of code is one word.

    >>> count_words("Use `linrank train data.txt` or [the class](docs/x.md#y) - both work.")
    7
    """
    sentence = re.sub(r"`+[^`]+`+", "code", sentence)
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return sum(any(c.isalpha() for c in word) for word in sentence.split())


def paragraphs(path: Path) -> Iterator[Paragraph]:
    """Yield the paragraphs of a Markdown page, or the docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from of_page(text)
    else:
        yield from of_docstrings(text)
        yield from of_comments(text)


def of_page(text: str) -> Iterator[Paragraph]:
    """Yield paragraphs, entries of lists and cells of tables; code is left out."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", blank, text, flags=re.MULTILINE | re.DOTALL)
    collected: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = not line.strip() or re.match(r"\s*([-*+|#>]|\d+\.)\s?", line)
        if begins and collected:
            yield Paragraph(number - len(collected), " ".join(collected))
            collected = []
        if line.lstrip().startswith("|"):
            yield from (Paragraph(number, cell.strip()) for cell in line.split("|"))
        elif (line.strip() and not line.startswith(("#", "    "))) or (line.strip() and collected):
            collected.append(line.strip())


def blank(found: re.Match[str]) -> str:
    """Return as many empty lines as were found."""
    return "\n" * found[0].count("\n")


def of_docstrings(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of docstrings; a change of indentation begins a new one."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, kinds) or ast.get_docstring(node) is None:
            continue
        first = node.body[0].lineno
        yield from of_block(list(enumerate((ast.get_docstring(node) or "").splitlines(), first)))


def of_block(lines: list[tuple[int, str]]) -> Iterator[Paragraph]:
    """Yield the paragraphs of numbered lines; a change of indentation begins a new one."""
    for key, block in groupby(lines, lambda item: kind_of(item[1])):
        if key is not None:
            yield from of_list(list(block))


def kind_of(line: str) -> int | None:
    """Return the indentation of a line of text, and None for examples, tables and blank lines."""
    if not line.strip() or re.search(r"^\s*(>>>|\.\.\.|-{3,}|={3,})|\S {2,}\S", line):
        return None
    return len(line) - len(line.lstrip()) - 2 * bool(re.match(r"\s*- ", line))


def of_list(lines: list[tuple[int, str]]) -> Iterator[Paragraph]:
    """Yield a block of lines, or each of its entries if it is a list."""
    collected: list[tuple[int, str]] = []
    for number, line in lines:
        if line.lstrip().startswith("- ") and collected:
            yield joined(collected)
            collected = []
        collected.append((number, line.strip()))
    yield joined(collected)


def joined(lines: list[tuple[int, str]]) -> Paragraph:
    return Paragraph(lines[0][0], " ".join(line for _, line in lines))


def of_comments(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of comments; comments on lines of their own are read as one text."""
    collected: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        (row, column), content = token.start, re.sub("^#:? ?", "", token.string)
        alone = not token.line[:column].strip()
        if collected and not (alone and row == collected[-1][0] + 1):
            yield from of_block(collected)
            collected = []
        collected.append((row, content))
    yield from of_block(collected)


if __name__ == "__main__":
    selected = [Path(name).resolve() for name in sys.argv[1:]] or [*PAGES, *SOURCES]
    for sentence in long_sentences(selected):
        print(sentence)
