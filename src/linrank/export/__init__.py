"""Export of linear and additive models to search engines, databases and program code.

To add a target, write a function ``(formula, *, options) -> str or bytes`` in a module of this
folder, and add its name to `TargetName` and `TARGETS`. The keyword arguments of the function are
the options of the target. `linrank.export.registry` checks them, and the command line sets them.
A target says which kinds of models it takes by the writers that it has. This module imports neither
numpy nor numba, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .registry import export_model, formula_of
    from .rounding import OrderChanges, order_changes

TargetName = Literal[
    "solr", "elasticsearch", "opensearch", "elasticsearch-native", "xgboost", "lightgbm", "vespa",
    "lucene", "sql", "onnx", "pmml", "c", "python", "liblinear", "svmrank", "features",
]  # fmt: skip


class Writer(NamedTuple):
    """Where the functions of a target are defined, as module and name.

    Attributes
    ----------
    write : str
        Writes the export.
    score : str, optional
        Computes scores with the rounding of the target. None if the target computes in double
        precision.
    """

    write: str
    score: str | None = None


class Target(NamedTuple):
    """The writers of a target by kinds of models, and whether they return bytes.

    A target without a writer for a kind of models refuses them.
    """

    linear: Writer | None
    additive: Writer | None
    binary: bool = False
    by_name: bool = False  #: whether the target finds features by names of its own

    @classmethod
    def of_both(cls, write: str, score: str | None = None) -> Target:
        """Return a target that writes all formulas in the same way."""
        return cls(Writer(write, score), Writer(write, score))


_PLUGIN = Target(
    Writer("elasticsearch.write_elasticsearch", "normalizers.sum_in_float32"),
    Writer("elasticsearch.write_plugin_trees", "trees.sum_trees_in_float32"),
    by_name=True,
)
TARGETS: Mapping[TargetName, Target] = {
    "solr": Target(
        Writer("solr.write_solr", "normalizers.sum_in_float32"),
        Writer("solr.write_solr_trees", "trees.sum_trees_in_float32"),
        by_name=True,
    ),
    "elasticsearch": _PLUGIN,
    "opensearch": _PLUGIN,
    "elasticsearch-native": Target(
        None, Writer("elasticsearch.write_native", "elasticsearch.score_natively"), by_name=True
    ),
    "xgboost": Target(None, Writer("xgboost.write_xgboost", "trees.sum_trees_in_float32")),
    "lightgbm": Target(None, Writer("lightgbm.write_lightgbm", "trees.sum_trees")),
    "vespa": Target.of_both("vespa.write_vespa"),
    "lucene": Target.of_both("lucene.write_lucene", "lucene.score_in_float32"),
    "sql": Target.of_both("sql.write_sql"),
    "onnx": Target.of_both("onnx.write_onnx", "onnx.score_as_onnx")._replace(binary=True),
    "pmml": Target(Writer("pmml.write_pmml"), None),
    "c": Target.of_both("c.write_c"),
    "python": Target.of_both("python.write_python"),
    "liblinear": Target(Writer("liblinear.write_liblinear"), None),
    "svmrank": Target(Writer("svmrank.write_svmrank", "svmrank.weights_in_float32"), None),
    "features": Target.of_both("features.write_features"),
}

__all__ = [
    "TARGETS", "OrderChanges", "Target", "TargetName", "Writer", "export_model", "formula_of",
    "order_changes",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "export_model": "registry",
        "formula_of": "registry",
        "OrderChanges": "rounding",
        "order_changes": "rounding",
    },
)
