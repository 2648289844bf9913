"""Each private part of numba that is overridden still exists and still has its effect.

docs/development/compiler.md says what each override gains.
"""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest
from numba.core import codegen, compiler
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from linrank._compile import compiler as ours
from linrank._compile.jit import njit

PARTS = {
    "inner kernels": (codegen.JITCodeLibrary, "_optimize_final_module _finalize_final_module "
                      "_finalize_dynamic_globals _verify_declare_only_symbols"),
    "environments of inner kernels": (compiler.CompilerBase, "_compile_core define_pipelines"),
    "stored kernels": (codegen.JITCodeLibrary, "_set_compiled_object _get_module_for_linking "
                       "get_pointer_to_function enable_object_caching serialize_using_object_code"),
    "environments of stored kernels": (compiler.CompileResult, "_find_referenced_environments"),
    "the cache": (Dispatcher, "enable_caching"),
}  # fmt: skip


@pytest.mark.parametrize("purpose", PARTS)
def test_numba_has_the_parts_that_are_overridden(purpose):
    owner, names = PARTS[purpose]
    missing = [name for name in names.split() if not hasattr(owner, name)]
    assert not missing, (
        f"numba {numba.__version__} has no {owner.__name__}.{missing}, which _compile/compiler.py "
        f"needs for {purpose}. Adapt it, or lower the upper bound on numba in pyproject.toml."
    )


@njit(inner=True)
def double_first(x):
    return 2.0 * x[0]


@njit
def sum_of_doubles(x):
    total = 0.0
    for i in range(len(x)):
        total += double_first(x[i:])
    return total


@pytest.fixture(scope="module")
def kernel():
    """The compiled form of a kernel that calls an inner one."""
    x = np.arange(4.0)
    assert sum_of_doubles(x) == 2 * x.sum()
    (compiled,) = sum_of_doubles.dispatcher.overloads.values()
    return compiled


def test_inner_kernels_have_no_machine_code(kernel):
    (inner,) = double_first.dispatcher.overloads.values()
    assert isinstance(inner.library, ours.InnerLibrary), "numba ignores the library of the compiler"
    engine = kernel.target_context.codegen()._engine
    assert engine.is_symbol_defined(kernel.fndesc.llvm_func_name)
    assert not engine.is_symbol_defined(inner.fndesc.llvm_func_name), (
        "numba makes machine code of inner kernels, which takes time and never runs"
    )


def test_kernels_without_arrays_count_no_references(kernel):
    assert "NRT_incref" not in kernel.library.get_llvm_str(), (
        "numba's option _nrt=False has no effect, so every slice costs two atomic additions"
    )


def test_a_stored_kernel_runs_without_its_bitcode(kernel):
    stored = pickle.loads(dumps(ours._reduce(kernel)))
    loaded = ours._rebuild(kernel.target_context, *stored)
    assert loaded.library._shared_module is None, "numba parses the bitcode of a loaded kernel"
    assert loaded.entry_point(np.arange(4.0)) == 12.0
