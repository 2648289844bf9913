"""Models to export, and readers that follow the published parsers of engines.

The readers are written from the rules of Solr (`LinearModel`, `StandardNormalizer` and
`MinMaxNormalizer`), of the learning-to-rank plugin (`LinearRankerParser` and
`StoredFeatureNormalizers`) and of Vespa (`RankingExpressionParser.jj`). They refuse what the
engines refuse, and score as they do.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

import numpy as np

from linrank.model import Term


@dataclass
class Made:
    """A model with given terms."""

    all_terms: list[Term]
    all_names: list[str]

    def names(self):
        return self.all_names

    def terms(self):
        return self.all_terms

    def predict(self, X):
        return np.array([slow_score(self, row) for row in np.asarray(X, dtype=float).tolist()])


def slow_score(model, row, constant=0.0):
    """The twin of `Formula.scores`: one row, one term after the other."""
    values = dict(zip(model.names(), row, strict=True))
    total = constant
    for term in model.terms():
        value = values[term.name]
        if math.isnan(value) and term.missing is not None:
            total += term.missing
            continue
        if term.log:
            value = math.log1p(value) if value >= 0 else -math.log1p(-value)
        if term.low is not None and value < term.low:
            value = term.low
        if term.high is not None and value > term.high:
            value = term.high
        total += term.weight * value
    return total


def shaped(names):
    """A model with every form of a term, for at least four features."""
    forms = [
        {"log": True, "missing": 0.25},
        {"low": -0.5, "high": 0.75},
        {"log": True, "low": -0.3, "high": 0.4, "missing": -1.5},
        {},
        {"high": 0.5, "missing": 0.0},
        {"log": True},
    ]
    weights = np.random.default_rng(7).normal(size=len(names)).tolist()
    terms = [
        Term(name, weight, **forms[k % len(forms)])
        for k, (name, weight) in enumerate(zip(names, weights, strict=True))
        if k != 3 + len(forms)  # one feature has no weight
    ]
    return Made(terms, list(names))


class Refused(Exception):
    """An engine would refuse the file."""


def read_solr(text):
    """Return a function that scores a mapping of values, as Solr's LinearModel does."""
    model = json.loads(text)
    if model["class"] != "org.apache.solr.ltr.model.LinearModel":
        raise Refused("class")
    if set(model) - {"class", "name", "store", "features", "params"}:
        raise Refused("unknown entry")
    weights = {name: np.float32(w) for name, w in model["params"]["weights"].items()}
    names = [feature["name"] for feature in model["features"]]
    if not names or len(set(names)) < len(names) or not set(names) <= set(weights):
        raise Refused("features and weights")
    norms = {f["name"]: solr_norm(f["norm"]) for f in model["features"] if "norm" in f}

    def score(values):
        total = np.float32(0)
        for name in names:
            value = np.float32(values[name])
            total += norms.get(name, np.float32)(value) * weights[name]
        return total

    return score


def solr_norm(norm):
    package, _, kind = norm["class"].rpartition(".")
    params = {key: np.float32(value) for key, value in norm["params"].items()}
    if package != "org.apache.solr.ltr.norm" or not all(isinstance(v, str) for v in
                                                        norm["params"].values()):  # fmt: skip
        raise Refused("norm")
    if kind == "StandardNormalizer":
        if set(params) != {"avg", "std"} or not params["std"] > 0:
            raise Refused("std")
        return lambda value: (value - params["avg"]) / params["std"]
    if kind != "MinMaxNormalizer" or set(params) != {"min", "max"}:
        raise Refused("norm")
    delta = params["max"] - params["min"]
    if delta == 0:
        raise Refused("delta")
    return lambda value: (value - params["min"]) / delta


def read_elasticsearch(text, feature_set):
    """Return a function that scores a mapping of values, as the plugin's linear model does."""
    content = json.loads(text)
    if set(content) != {"model"} or set(content["model"]) != {"name", "model"}:
        raise Refused("entries")
    model = content["model"]["model"]
    if model["type"] != "model/linear" or set(model) - {
        "type",
        "definition",
        "feature_normalizers",
    }:
        raise Refused("model")
    definition = model["definition"]
    definition = json.loads(definition) if isinstance(definition, str) else definition
    weights = np.zeros(len(feature_set), dtype=np.float32)
    for name, weight in definition.items():
        if name not in feature_set or isinstance(weight, bool | str):
            raise Refused(f"Feature [{name}] is unknown.")
        weights[feature_set.index(name)] = weight
    norms = {}
    for name, norm in model.get("feature_normalizers", {}).items():
        if name not in feature_set or len(norm) != 1:
            raise Refused(name)
        norms[name] = plugin_norm(*next(iter(norm.items())))

    def score(values):
        total = np.float32(0)
        for name, weight in zip(feature_set, weights, strict=True):
            total += weight * norms.get(name, np.float32)(np.float32(values[name]))
        return total

    return score


def plugin_norm(kind, params):
    numbers = {key: np.float32(value) for key, value in params.items()}
    if kind == "standard":
        if list(numbers) != ["mean", "standard_deviation"] or not numbers["standard_deviation"] > 0:
            raise Refused("Standard Deviation Must Be Positive.")
        return lambda value: (value - numbers["mean"]) / numbers["standard_deviation"]
    # The setters compare with the defaults of the other limit, so the order counts.
    if kind != "min_max" or list(numbers) != ["minimum", "maximum"]:
        raise Refused(kind)
    low, high = numbers.values()
    if not 0 <= low < high:
        raise Refused("minimum")
    return lambda value: (value - low) / (high - low)


VESPA_TOKEN = re.compile(
    r"\s+|(?P<number>\d+(\.\d*)?([eE][+-]?\d+)?)"
    r"|(?P<feature>[A-Za-z_@][\w@$]*)|(?P<symbol>==|[-+*/(),<.])"
)
VESPA_FUNCTIONS = {"log": math.log, "isNan": math.isnan, "min": min, "max": max}


class Vespa:
    """An evaluator of ranking expressions; features are found by their text."""

    def __init__(self, text, values):
        self.tokens, at = [], 0
        while at < len(text):
            found = VESPA_TOKEN.match(text, at)
            if found is None:
                raise Refused(text[at : at + 20])
            at = found.end()
            if found.lastgroup:
                self.tokens.append(found.group())
        self.values = values

    def take(self, *expected):
        if not self.tokens or (expected and self.tokens[0] not in expected):
            raise Refused(f"{self.tokens[:3]} instead of {expected}")
        return self.tokens.pop(0)

    def see(self, *expected):
        return bool(self.tokens) and self.tokens[0] in expected

    def evaluate(self):
        value = self.expression()
        if self.tokens:
            raise Refused(self.tokens[:3])
        return value

    def expression(self):
        left = self.sum()
        if self.see("<", "=="):
            return left < self.sum() if self.take() == "<" else left == self.sum()
        return left

    def sum(self):
        total = self.product()
        while self.see("+", "-"):
            total += self.product() if self.take() == "+" else -self.product()
        return total

    def product(self):
        value = self.value()
        while self.see("*", "/"):
            value = value * self.value() if self.take() == "*" else value / self.value()
        return value

    def value(self):
        token = self.take()
        if token == "-":
            return -self.value()
        if token == "(":
            value = self.expression()
            self.take(")")
            return value
        if token[0].isdigit():
            return float(token)
        if token == "if":
            return self.conditional()
        if token in VESPA_FUNCTIONS and self.see("("):
            return VESPA_FUNCTIONS[token](*self.arguments())
        return self.values[self.feature(token)]

    def arguments(self):
        self.take("(")
        values = [self.expression()]
        while self.see(","):
            self.take()
            values.append(self.expression())
        self.take(")")
        return values

    def conditional(self):
        """Evaluate both branches; a logarithm of a negative number is NaN as in C."""
        start = list(self.tokens)
        self.take("(")
        condition = self.expression()
        self.take(",")
        first = self.branch()
        self.take(",")
        second = self.branch()
        self.take(")")
        assert len(start) > len(self.tokens)
        return first if condition else second

    def branch(self):
        """Evaluate an expression, or skip it if it is outside the domain of a logarithm."""
        start = list(self.tokens)
        try:
            return self.expression()
        except ValueError:
            self.tokens = start
        depth = 0
        while depth or not self.see(",", ")"):
            depth += {"(": 1, ")": -1}.get(self.take(), 0)
        return math.nan

    def feature(self, name):
        if self.see("("):
            self.take()
            arguments = [self.take()]
            while self.see(","):
                self.take()
                arguments.append(self.take())
            self.take(")")
            name += f"({','.join(arguments)})"
        if self.see("."):
            self.take()
            name += "." + self.take()
        return name


def read_vespa(text, phase="first-phase"):
    """Return the name of a rank profile and a function that scores a mapping of values."""
    shape = re.fullmatch(
        r"rank-profile (\w+) inherits (\w+) \{\s*function (\w+)\(\) \{\s*expression \{(.*?)\}\s*\}"
        r"\s*([a-z-]+) \{\s*expression: (\w+)\s*\}\s*\}\s*",
        text,
        re.DOTALL,
    )
    if shape is None or shape[3] != shape[6] or shape[5] != phase:
        raise Refused(text)
    return shape[1], lambda values: Vespa(shape[4], values).evaluate()


def read_svmrank(text):
    """Return the weights by number, and the threshold, of a linear model of SVMlight."""
    lines = text.split("\n")
    if not re.fullmatch(r"SVM-light Version V\d\.\d+", lines[0]):
        raise Refused(lines[0])
    header = [re.split(r"\s*#", line)[0] for line in lines[1:11]]
    if header[0] != "0" or header[8] != "2" or header[5] != "empty":
        raise Refused(header)
    alpha, *entries, end = lines[11].split(" ")
    if end != "#" or lines[12:] != [""]:
        raise Refused(lines[11:])
    pairs = [entry.split(":") for entry in entries]
    numbers = [int(number) for number, _ in pairs]
    if numbers != sorted(set(numbers)) or numbers[0] < 1 or numbers[-1] > int(header[6]):
        raise Refused(numbers)
    weights = {int(n): float(alpha) * float(np.float32(w)) for n, w in pairs}
    return weights, float(header[9])
