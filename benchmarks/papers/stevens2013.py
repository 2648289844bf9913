"""Tables and figures of Stevens, Bengio & Singer 2013, Domination Rank."""

from __future__ import annotations

from benchmarks.tools import Sections

TITLE = "Stevens, Bengio & Singer 2013: Efficient learning of sparse ranking functions"
ABOUT = "Tables and figures of the paper beside the figures that linrank finds."
SECTIONS: Sections = {}
