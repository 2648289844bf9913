"""Calls that must succeed or be refused with one sentence, as several campaigns expect it."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from linrank import LinrankError

from . import ROOT
from .campaign import Case

T = TypeVar("T")

LONGEST = 1000  #: characters of a sentence
#: Files whose errors are sentences: our own, and the checks of X that scikit-learn shares with us.
OURS = (str(ROOT / "src" / "linrank"), "/sklearn/utils/validation.py")


def is_sentence(error: BaseException) -> bool:
    """Tell whether an error is one line about the input, and not a failure in another library."""
    place, text = traceback.extract_tb(error.__traceback__)[-1].filename, str(error)
    ours = any(name in place for name in OURS) and isinstance(error, ValueError | TypeError)
    is_line = 0 < len(text) < LONGEST and "\n" not in text
    return is_line and (ours or isinstance(error, LinrankError))


def tried(case: Case, about: str, work: Callable[..., T], *args: Any, **options: Any) -> T | None:
    """Return the result of a call, or None if it fails; without a sentence, this is a defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work(*args, **options)
    except Exception as error:
        if is_sentence(error):
            case.saw("refused")
        else:
            place = traceback.extract_tb(error.__traceback__)[-1]
            case.wrong(
                f"{about}: traceback: {type(error).__name__}: {str(error)[:300]} "
                f"({place.filename}:{place.lineno})"
            )
        return None
