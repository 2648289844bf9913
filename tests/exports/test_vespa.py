"""Vespa's own classes read rank profiles and evaluate them."""

from __future__ import annotations

import numpy as np

from linrank.export import export_model

SCHEMA = "schema docs {\n document docs {\n%s }\n%s}\n"
FIELD = "  field %s type double {}\n"


def score_vespa(schema: str, rows: list[dict[str, float]]) -> list[float]:
    """Read a schema and score rows by its rank profile, in the process of Vespa."""
    import jpype

    yahoo = jpype.JPackage("com").yahoo
    read = yahoo.schema.parser.IntermediateCollection(None).addSchemaFromString(schema)
    (profile,) = call(read, "getRankProfiles")
    (function,) = call(profile, "getFunctions")
    assert call(profile, "getFirstPhaseExpression").get() == call(function, "name")
    ranking = yahoo.searchlib.rankingexpression
    expression = ranking.RankingExpression(call(function, "getExpression"))
    context = ranking.evaluation.MapContext()
    found = []
    for row in rows:
        for name, value in row.items():
            context.put(name, ranking.evaluation.DoubleValue(value))
        found.append(float(expression.evaluate(context).asDouble()))
    return found


def call(thing, name: str):
    """Call a method that is not public."""
    kind = thing.getClass()
    while name not in (names := [method.getName() for method in kind.getDeclaredMethods()]):
        kind = kind.getSuperclass()
    method = kind.getDeclaredMethods()[names.index(name)]
    method.setAccessible(True)
    return method.invoke(thing, [])


def test_profiles_are_read_and_scored(case, engines):
    engine = engines("vespa")
    fields = [f"f{k}" for k in range(len(case.model.names()))]
    references = [f"attribute({field})" for field in fields]
    features = dict(zip(case.model.names(), references, strict=True))
    profile = export_model(case.model, "vespa", features=features, shift=0.5)
    schema = SCHEMA % ("".join(FIELD % field for field in fields), profile)
    rows = np.asarray(case.X, dtype=float).tolist()
    scores = engine.run(
        score_vespa, schema, [dict(zip(references, row, strict=True)) for row in rows]
    )
    case.check(scores, 0.5, by=f"Vespa {engine.version}: {case.kind}")
