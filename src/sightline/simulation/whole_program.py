"""Whole-program compilation: all that an entry calls is optimized and made machine code once, together with it.

Numba optimizes every function with all that it calls in turn, and makes machine code of that, so that a function at
the bottom of ten others is compiled ten times. Here a *part*, which only compiled code calls, is written as LLVM's
code and left at that. An *entry* links all parts that it reaches. Nobody else calls them, so that LLVM may drop
arguments that a part does not use: a tuple of arrays is dozens of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from numba.core import codegen, compiler

_Library: Any = codegen.JITCodeLibrary
_Compiler: Any = compiler.Compiler


class _NoMachineCode:
    """In place of a part's code generator."""

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: a part has no address that its environment could be written to."""


class _PartLibrary(_Library):  # type: ignore[misc]
    """Code of a function that entries link."""

    @property
    def codegen(self) -> Any:
        return _NoMachineCode()

    def finalize(self) -> None:
        self._finalized = True

    def _optimize_functions(self, module: Any) -> None:
        """Leave that to the entry."""

    def _get_module_for_linking(self) -> Any:
        # As it is: an entry links it once, and may do so before what calls it.
        return self._final_module

    def reached(self) -> Sequence[Any]:
        """Return the libraries that the code calls."""
        return list(self._linking_libraries)


class _EntryLibrary(_Library):  # type: ignore[misc]
    """Code of a function that Python calls, with all parts that it reaches."""

    def finalize(self) -> None:
        self._linking_libraries: list[Any] = list(_all_reached(self._linking_libraries))
        super().finalize()

    def _optimize_final_module(self) -> None:
        parts = [library for library in self._linking_libraries if isinstance(library, _PartLibrary)]
        own = {function.name for part in parts for function in part.get_defined_functions()}
        for function in self._final_module.functions:
            if function.name in own:
                function.linkage = "internal"
        super()._optimize_final_module()


def _all_reached(libraries: Sequence[Any]) -> Iterator[Any]:
    """Yield libraries, and those that parts among them reach, once each."""
    found, left = set(), list(libraries)
    while left:
        library = left.pop()
        if library not in found:
            found.add(library)
            yield library
            left += library.reached() if isinstance(library, _PartLibrary) else ()


class PartCompiler(_Compiler):  # type: ignore[misc]
    """Compiles a part: ``pipeline_class`` of `numba.njit`."""

    library: Any = _PartLibrary

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library of its kind."""
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class EntryCompiler(PartCompiler):
    """Compiles an entry: ``pipeline_class`` of `numba.njit`."""

    library = _EntryLibrary
