"""Worker process: it runs cases of one campaign and prints a line of JSON before and after each.

If the process dies, its last line tells the parent process which case was running.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import traceback
from itertools import count
from pathlib import Path
from typing import Any

from .campaign import Campaign
from .campaigns import CAMPAIGNS


def say(**content: Any) -> None:
    print(json.dumps(content), flush=True)


def try_case(campaign: Campaign, seed: int, number: int, state: Any) -> None:
    """Run one case in an empty folder and print its outcome."""
    say(begins=number)
    with tempfile.TemporaryDirectory(prefix="linrank-fuzz-") as folder:
        case = campaign.make_case(seed, number, Path(folder), state)
        try:
            campaign.run(case)
        except Exception:  # a defect of linrank or of the campaign itself
            case.wrong(traceback.format_exc())
    say(case=number, units=case.units, wrong=case.complaints, seen=case.seen)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("seed", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("step", type=int, help="0: only the first case")
    options = parser.parse_args()
    campaign = CAMPAIGNS[options.campaign]
    with tempfile.TemporaryDirectory(prefix="linrank-fuzz-") as folder:
        state = None if campaign.prepare is None else campaign.prepare(Path(folder))
        size = None if campaign.size is None else campaign.size(state)
        for number in count(options.first, options.step) if options.step else [options.first]:
            if size is not None and number >= size:
                break
            try_case(campaign, options.seed, number, state)
    say(end=True)


if __name__ == "__main__":
    main()
