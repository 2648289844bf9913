"""Tables and figures of Jin & Lin 2014: Efficient parallel algorithms for linear RankSVM on GPU."""

from __future__ import annotations

from benchmarks.tools import Sections

TITLE = "Jin & Lin 2014: Efficient parallel algorithms for linear RankSVM on GPU"
ABOUT = "Tables and figures of the paper beside the figures that linrank finds."
SECTIONS: Sections = {}
