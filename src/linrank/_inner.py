"""Compilation of inner kernels: the kernels that only other kernels call.

LLVM optimises an inner kernel and makes machine code of it as a part of each kernel that calls it.
Numba would also do both for the inner kernel alone, and that code would never run.

An *environment* holds the Python objects that a kernel uses, for example to print. Machine code
finds it at an address that is known when the code is loaded. Inner kernels get their environments
when a kernel that calls them is loaded.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class InnerCompiler(Compiler):
    """Numba's compiler, which leaves the code of a kernel unoptimised in an `InnerLibrary`."""

    def define_pipelines(self) -> Any:
        """Return numba's passes; the last of them fills the library."""
        state = self.state
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class OuterCompiler(Compiler):
    """Numba's compiler for the kernels that are called from Python."""

    def _compile_core(self) -> Any:
        kernel = super()._compile_core()
        for environment in kernel._find_referenced_environments():
            kernel.codegen.set_env(environment.env_name, environment)
        return kernel


class InnerLibrary(JITCodeLibrary):
    """Code that is linked into other libraries, and that cannot be run by itself."""

    @property
    def codegen(self) -> _Later:
        """The object that numba asks to register the environment of this kernel."""
        return _Later()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Later:
    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: `OuterCompiler` registers the environments of inner kernels."""
