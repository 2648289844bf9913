"""Export of linear and additive models to search engines, databases and program code.

To add a target, write a function ``(formula, *, options) -> str or bytes`` in a module of this
folder, and add its name to `TargetName` and `TARGETS`. The keyword arguments of the function are
the options of the target. `linrank.export.targets` checks them, and the command line sets them.
A target says which kinds of models it takes by the writers that it has. This module imports neither
numpy nor numba, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from .._util.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .targets import OrderChanges, export_model, formula_of, order_changes

TargetName = Literal[
    "solr", "elasticsearch", "opensearch", "elasticsearch-native", "xgboost", "lightgbm", "vespa",
    "lucene", "script-score", "sql", "onnx", "pmml", "c", "java", "javascript", "rust", "python",
    "liblinear", "svmrank", "features",
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
    by_query: bool = False  #: whether the target scales features within queries
    by_text: bool = False  #: whether the target reads columns of text

    @classmethod
    def of_both(cls, write: str, score: str | None = None, by_query: bool = True) -> Target:
        """Return a target that writes all formulas in the same way."""
        return cls(Writer(write, score), Writer(write, score), by_query=by_query)


_PLUGIN = Target(
    Writer("elasticsearch.write_elasticsearch", "formula.sum_in_float32"),
    Writer("elasticsearch.write_plugin_trees", "tree_models.sum_trees_in_float32"),
    by_name=True,
)
TARGETS: Mapping[TargetName, Target] = {
    "solr": Target(
        Writer("solr.write_solr", "formula.sum_in_float32"),
        Writer("solr.write_solr_trees", "tree_models.sum_trees_in_float32"),
        by_name=True,
    ),
    "elasticsearch": _PLUGIN,
    "opensearch": _PLUGIN,
    "elasticsearch-native": Target(
        None, Writer("elasticsearch.write_native", "elasticsearch.score_natively"), by_name=True
    ),
    "xgboost": Target(
        None, Writer("tree_models.write_xgboost", "tree_models.sum_trees_in_float32")
    ),
    "lightgbm": Target(None, Writer("tree_models.write_lightgbm", "tree_models.sum_trees")),
    "vespa": Target.of_both("vespa.write_vespa"),
    "lucene": Target.of_both(
        "elasticsearch.write_lucene", "elasticsearch.score_in_float32", by_query=False
    ),
    "script-score": Target.of_both(
        "elasticsearch.write_script", "elasticsearch.score_in_float32", by_query=False
    )._replace(by_name=True),
    "sql": Target.of_both("sql.write_sql")._replace(by_text=True),
    "onnx": Target.of_both("onnx.write_onnx", "onnx.score_as_onnx")._replace(binary=True),
    "pmml": Target(Writer("pmml.write_pmml"), None),
    "c": Target.of_both("programs.write_c"),
    "java": Target.of_both("programs.write_java"),
    "javascript": Target.of_both("programs.write_javascript")._replace(by_text=True),
    "rust": Target.of_both("programs.write_rust"),
    "python": Target.of_both("programs.write_python")._replace(by_text=True),
    "liblinear": Target(Writer("svm_models.write_liblinear"), None),
    "svmrank": Target(Writer("svm_models.write_svmrank", "svm_models.weights_in_float32"), None),
    "features": Target.of_both("formula.write_features"),
}

__all__ = [
    "TARGETS", "OrderChanges", "Target", "TargetName", "Writer", "export_model", "formula_of",
    "order_changes",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "export_model": "targets",
        "formula_of": "targets",
        "OrderChanges": "targets",
        "order_changes": "targets",
    },
)
