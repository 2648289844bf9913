"""
Which solver is the fastest?
============================

All solvers of :class:`linrank.RankSVM` minimise the same objective, so they find the same ranker if
they run long enough. They differ in the number of passes over the data. This page races them to the
optimum.
"""

# %%
# The problem
# -----------
# The data have 12,000 documents in 300 queries, and 60 correlated features. The optimum is computed
# first, to ten digits, so that we can measure how far each solver is from it.
from dataclasses import replace

import matplotlib.pyplot as plt

from linrank import make_problem, make_ranking
from linrank.solvers import LBFGS, CuttingPlanes, Newton, PairSGD, Tron

plt.style.use("linrank.style")
data = make_ranking(
    n_queries=300, docs_per_query=40, n_features=60, correlation=0.9, random_state=0
)
problem = make_problem(data, C=0.01)
optimum = Newton(tol=1e-10).solve(problem).objective
print(f"{data.n_docs:,} documents, objective at the optimum: {optimum:.6f}")

# %%
# The race
# --------
# A *pass* is one evaluation of the objective with its gradient, or one Hessian-vector product. Each
# of them reads the data once. The problem counts both, so the left picture below does not depend on
# the machine. One epoch of stochastic gradient descent (SGD) counts as one pass, and the evaluation
# after it as another one.
solvers = {
    "Newton (default)": Newton(tol=1e-9),
    "TRON": Tron(tol=1e-9),
    "L-BFGS": LBFGS(tol=1e-9),
    "cutting planes": CuttingPlanes(tol=1e-6, max_iter=120),
    "SGD over pairs": PairSGD(tol=1e-6, max_iter=30),
}
passes, seconds, distance = {}, {}, {}
for name, solver in solvers.items():
    type(solver)(max_iter=2).solve(problem)  # loads compiled code, which is not part of the race
    before, states = replace(problem.engine.work), []
    solver.callback = lambda step, states=states: states.append(
        (replace(problem.engine.work), step)
    )
    result = solver.solve(problem)
    epochs = 1 if "SGD" in name else 0
    passes[name] = [
        work.evaluations - before.evaluations + work.products - before.products
        + epochs * step.iteration
        for work, step in states
    ]  # fmt: skip
    seconds[name] = [step.seconds for _, step in states]
    distance[name] = [max(step.objective / optimum - 1.0, 1e-12) for _, step in states]
    print(f"{name:16s} {passes[name][-1]:4d} passes, {distance[name][-1]:.0e} above the optimum")

# %%
# The vertical axis is the distance to the optimum, as a share of the objective. The times on the
# right were measured when this page was built, so they differ from run to run.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for k, name in enumerate(solvers):
    style = {"marker": "os^Dv"[k], "markersize": 3, "linewidth": 1.2, "label": name}
    left.loglog(passes[name], distance[name], **style)
    right.loglog([1e3 * s for s in seconds[name]], distance[name], **style)
left.set(title="Work", xlabel="passes over the data (log scale)")
left.set_ylabel("distance to the optimum (log scale)")
right.set(title="Time", xlabel="milliseconds (log scale)")
right.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
plt.show()

# %%
# Newton's method builds the Hessian from a sample of the queries and uses it to precondition its
# steps, so it needs few passes even if features are correlated. The choice of ``solver="auto"`` is
# Newton's method for every loss with a derivative.

# %%
# The record of one fit
# ---------------------
# Each result keeps its history. ``plot`` draws it, which helps if a fit is slow or does not
# converge.
result = Newton(tol=1e-6).solve(problem)
print(result.message)
result.plot()
plt.show()

# %%
# What to read next
# -----------------
# - :doc:`plot_losses` compares the losses that are minimised.
# - :doc:`../labels/plot_huge_queries` shows how the time grows with the number of rows.
# - :class:`linrank.RankSVM` lists all solvers; :func:`linrank.make_problem` makes a problem.
