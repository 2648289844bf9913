"""Tables and figures of Lee & Lin 2014: Large-scale linear RankSVM."""

from __future__ import annotations

from benchmarks.tools import Sections

TITLE = "Lee & Lin 2014: Large-scale linear RankSVM"
ABOUT = "Tables and figures of the paper beside the figures that linrank finds."
SECTIONS: Sections = {}
