"""The names of the features that an engine has to compute."""

from __future__ import annotations

import json

from .formula import Formula


def write_features(formula: Formula) -> str:
    """Write the names of the features with a weight as a JSON list, in the model's order."""
    names = [term.name for term in formula.terms]
    return json.dumps(names, indent=1, ensure_ascii=False) + "\n"
