"""Tables and figures of Laporte et al. 2014, sparse RankSVM."""

from __future__ import annotations

from benchmarks.tools import Sections

TITLE = "Laporte et al. 2014: Nonconvex regularizations for feature selection in ranking"
ABOUT = "Tables and figures of the paper beside the figures that linrank finds."
SECTIONS: Sections = {}
