"""Compilation of inner kernels: the kernels that only other kernels call.

LLVM optimises an inner kernel and makes machine code of it as a part of each kernel that calls it.
Numba would also do both for the inner kernel alone, and that code would never run.
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


class InnerLibrary(JITCodeLibrary):
    """Code that is linked into other libraries, and that cannot be run by itself."""

    @property
    def codegen(self) -> _NoEnvironment:
        """Where numba registers the Python objects of a kernel."""
        return _NoEnvironment()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _NoEnvironment:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        assert not environment.consts, f"{name}: an inner kernel cannot use Python objects"
