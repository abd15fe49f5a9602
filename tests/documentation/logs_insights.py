"""The syntax of CloudWatch Logs Insights queries, as documented for its commands, functions and operators.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html and the pages below it. `check` reports what is wrong with a
query, as far as its text shows it: it does not know which fields log lines have.
"""

from __future__ import annotations

import re
from collections.abc import Callable

TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<pattern>/(?:[^/\\]|\\.)+/i?)|(?P<period>\d+(?:ms|s|m|h|d|w|mo|q|y)\b)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<name>[@A-Za-z_][\w@.]*|`[^`]+`)|(?P<mark><=|>=|!=|=~|[-+*/^%=<>()\[\],|]))"
)
AGGREGATES = {"avg", "count", "count_distinct", "max", "min", "pct", "stddev", "sum", "earliest", "latest", "sortsFirst", "sortsLast"}
# The smallest and the largest number of arguments.
FUNCTIONS = {
    **{name: (1, 1) for name in ("abs", "ceil", "floor", "log", "sqrt", "fromMillis", "toMillis", "ispresent", "isempty", "isblank", "strlen", "toupper", "tolower", "jsonParse", "jsonStringify")},
    **{name: (2, 2) for name in ("datefloor", "dateceil", "strcontains")},
    **{name: (1, 2) for name in ("bin", "trim", "ltrim", "rtrim")},
    **{name: (1, 99) for name in ("greatest", "least", "coalesce", "concat")},
    "substr": (2, 3),
    "replace": (3, 3),
    "now": (0, 0),
}
# Words that are no fields.
WORDS = {"and", "or", "not", "in", "like", "as", "by", "asc", "desc"}


class Wrong(Exception):
    """An error in a query."""


class Query:
    """Takes the tokens of a query one after another."""

    def __init__(self, query: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        query, place = query.strip(), 0
        while place < len(query):
            found = TOKEN.match(query, place)
            if not found or found.lastgroup is None:
                raise Wrong(f"not understood: {query[place : place + 20]!r}")
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()

    def next_is(self, *texts: str) -> bool:
        return bool(self.tokens) and self.tokens[0][1] in texts and self.tokens[0][0] in ("mark", "name")

    def take(self, *texts: str) -> bool:
        return self.next_is(*texts) and bool(self.tokens.pop(0))

    def need(self, text: str) -> None:
        if not self.take(text):
            raise Wrong(f"{text!r} is missing before {self.rest()!r}")

    def kind(self, *kinds: str) -> str:
        if not self.tokens or self.tokens[0][0] not in kinds or self.tokens[0][1] in WORDS:
            raise Wrong(f"{' or '.join(kinds)} is missing before {self.rest()!r}")
        return self.tokens.pop(0)[1]

    def rest(self) -> str:
        return " ".join(text for _, text in self.tokens[:4])

    def several(self, one: Callable[[], None]) -> None:
        one()
        while self.take(","):
            one()

    # Expressions, from the weakest operator to the strongest.

    def expression(self) -> None:
        self.conjunction()
        while self.take("or"):
            self.conjunction()

    def conjunction(self) -> None:
        self.negation()
        while self.take("and"):
            self.negation()

    def negation(self) -> None:
        while self.take("not"):
            pass
        self.comparison()

    def comparison(self) -> None:
        self.sum()
        negated = self.take("not")
        if self.take("in"):
            self.need("[")
            self.several(self.sum)
            self.need("]")
        elif self.take("like"):
            self.kind("text", "pattern")
        elif negated:
            raise Wrong("not is followed by neither in nor like")
        elif self.take("=~"):
            self.kind("pattern")
        elif self.take("=", "!=", "<", ">", "<=", ">="):
            self.sum()

    def sum(self) -> None:
        self.value()
        while self.take("+", "-", "*", "/", "^", "%"):
            self.value()

    def value(self) -> None:
        if self.take("("):
            self.expression()
            self.need(")")
        elif self.take("-"):
            self.kind("number")
        else:
            name = self.kind("name", "text", "number", "period")
            if self.next_is("("):
                self.arguments(name, FUNCTIONS.get(name))

    def arguments(self, name: str, allowed: tuple[int, int] | None) -> None:
        if allowed is None:
            raise Wrong(f"there is no function {name} here")
        self.need("(")
        count = 0
        while not self.take(")"):
            if count:
                self.need(",")
            self.expression()
            count += 1
        if not allowed[0] <= count <= allowed[1]:
            raise Wrong(f"{name} has {count} arguments")

    # Commands.

    def named(self) -> None:
        self.expression()
        if self.take("as"):
            self.kind("name")

    def aggregate(self) -> None:
        name = self.kind("name")
        if name not in AGGREGATES:
            raise Wrong(f"{name} is no function of stats")
        if name == "count" and self.tokens[:3] == [("mark", "("), ("mark", "*"), ("mark", ")")]:
            del self.tokens[:3]
        else:
            self.arguments(name, {"count": (0, 1), "pct": (2, 2)}.get(name, (1, 1)))
        if self.take("as"):
            self.kind("name")

    def sorted(self) -> None:
        self.kind("name")
        self.take("asc", "desc")

    def command(self) -> str:
        word = self.kind("name")
        match word:
            case "SOURCE":
                self.kind("text")
            case "fields" | "display":
                self.several(self.named if word == "fields" else lambda: drop(self.kind("name")))
            case "filter":
                self.expression()
            case "stats":
                self.several(self.aggregate)
                if self.take("by"):
                    self.several(self.named)
            case "sort":
                self.several(self.sorted)
            case "limit":
                if not 1 <= int(self.kind("number")) <= 10_000:
                    raise Wrong("limit takes 1 to 10,000 lines")
            case "dedup":
                self.several(lambda: drop(self.kind("name")))
            case "parse":
                self.kind("name")
                if self.kind("text", "pattern")[0] != "/":
                    self.need("as")
                    self.several(lambda: drop(self.kind("name")))
            case "pattern":
                self.kind("name")
            case _:
                raise Wrong(f"there is no command {word}")
        return word


def drop(_: object) -> None:
    """For functions whose result is not needed."""


def check(text: str) -> list[str]:
    """The commands of a query. Raises `Wrong` if it is no query."""
    query = Query(text)
    commands = [query.command()]
    while query.tokens:
        query.need("|")
        commands.append(query.command())
    after = [word for word in commands if word != "SOURCE"]
    if commands[: len(commands) - len(after)] != ["SOURCE"] * (len(commands) - len(after)):
        raise Wrong("SOURCE is not first")
    aggregated = [index for index, word in enumerate(after) if word == "stats"]
    if len(aggregated) > 2:
        raise Wrong("a query has at most two stats")
    if len(aggregated) == 2 and {"sort", "limit"} & set(after[: aggregated[1]]):
        raise Wrong("sort and limit are only allowed after the last stats")
    return commands
