"""Export of linear models to search engines, databases and program code.

To add a target, write a function ``(formula, *, options) -> str or bytes`` in a module of this
folder, and add its name to `TargetName` and `TARGETS`. The keyword arguments of the function are
the options of the target. `linrank.export.registry` checks them, and the command line sets them.
This module imports neither numpy nor numba, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .registry import export_model
    from .rounding import OrderChanges, order_changes

TargetName = Literal[
    "solr", "elasticsearch", "opensearch", "vespa", "lucene", "sql", "onnx", "pmml", "c", "python",
    "liblinear", "svmrank", "features",
]  # fmt: skip


class Target(NamedTuple):
    """Where a target is defined.

    Attributes
    ----------
    writer : str
        Module and function that write the export.
    scorer : str, optional
        Module and function that compute scores with the rounding of the target. None if the
        target computes in double precision.
    binary : bool
        Whether the writer returns bytes.
    """

    writer: str
    scorer: str | None = None
    binary: bool = False


TARGETS: Mapping[TargetName, Target] = {
    "solr": Target("solr.write_solr", "normalizers.sum_in_float32"),
    "elasticsearch": Target("elasticsearch.write_elasticsearch", "normalizers.sum_in_float32"),
    "opensearch": Target("elasticsearch.write_elasticsearch", "normalizers.sum_in_float32"),
    "vespa": Target("vespa.write_vespa"),
    "lucene": Target("lucene.write_lucene", "lucene.score_in_float32"),
    "sql": Target("sql.write_sql"),
    "onnx": Target("onnx.write_onnx", "onnx.score_as_onnx", binary=True),
    "pmml": Target("pmml.write_pmml"),
    "c": Target("c.write_c"),
    "python": Target("python.write_python"),
    "liblinear": Target("liblinear.write_liblinear"),
    "svmrank": Target("svmrank.write_svmrank", "svmrank.weights_in_float32"),
    "features": Target("features.write_features"),
}

__all__ = ["TARGETS", "OrderChanges", "Target", "TargetName", "export_model", "order_changes"]

__getattr__ = lazy_names(
    __name__,
    {"export_model": "registry", "OrderChanges": "rounding", "order_changes": "rounding"},
)
