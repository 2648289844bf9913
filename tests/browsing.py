"""What the tests of pages in a browser share."""

from __future__ import annotations

import os
from typing import Any

import pytest

DESK = (1440, 900)  # pixels of a screen
SCREENS = {"phone": (360, 740), "desk": DESK}
SCHEMES = ("light", "dark")
SHOTS = os.environ.get("LINRANK_SHOTS")  # a folder for screenshots


def absent(what: str) -> None:
    """Skip a test whose program is not installed; fail where everything must be installed."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed")


def check_axe(page: Any, axe: str, within: Any = None) -> None:
    """Check that axe-core finds no barrier for readers with disabilities, in a part of a page."""
    page.evaluate(axe)
    found = page.evaluate("(within) => axe.run(within || document, {preload: false})", within)
    assert found["passes"]
    wrong = [
        f"{v['id']} ({v['impact']}): {v['help']}: {[n['html'][:200] for n in v['nodes'][:3]]}"
        for v in found["violations"]
    ]
    assert not wrong, "\n".join(wrong)
