"""The names of the features that an engine has to compute."""

from __future__ import annotations

import json

from .formula import Formula


def write_features(formula: Formula) -> str:
    """Write the names of the features with a part in the score as a JSON list, in their order."""
    return json.dumps(formula.used, indent=1, ensure_ascii=False) + "\n"
