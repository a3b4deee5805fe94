"""Compilation of the simulator's hot loop, kept on disk between processes.

Numba keys what it keeps by the source of the compiled function alone: after an edit of a function that it calls, the
kept code would be stale. The folder that keeps ours is therefore named after the content of all modules that have
compiled functions, of the compiler and of the processor, and by nothing else: all installations of the same sources
share it. Only what Python calls is kept, with the code of everything that it calls in turn.
"""

# mypy: disable-error-code="no-untyped-call"
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from os import W_OK, access, environ
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from sightline import folders
from sightline.errors import WorkError
from sightline.progress import remark

try:
    import numba
    from llvmlite.binding import (
        create_pass_builder,
        create_pipeline_tuning_options,
        get_host_cpu_features,
        get_host_cpu_name,
    )
    from numba.core import cgutils, codegen, compiler, typed_passes, untyped_passes
    from numba.core.caching import UserProvidedCacheLocator
    from numba.core.compiler_machinery import PassManager
    from numba.core.datamodel.packer import ArgPacker
    from numba.core.datamodel.registry import default_manager
    from numba.core.registry import CPUDispatcher
except (ImportError, AttributeError, SystemError) as error:  # what a numba raises that is older than its NumPy
    raise WorkError(f"the simulator needs a numba that fits its NumPy: {str(error).partition(chr(10))[0]}") from error

RELEASES = (0, 62), (0, 68)
"""The first and the last release of numba whose internals are as this module needs them."""


def check_release(version: str) -> None:
    """Raise a `WorkError` where a release of numba was never tested."""
    if not RELEASES[0] <= tuple(map(int, version.split(".")[:2])) <= RELEASES[1]:
        first, last = (".".join(map(str, release)) for release in RELEASES)
        raise WorkError(
            f"the simulator needs numba {first} to {last}, and {version} is installed; install numba=={last}.*"
        )


check_release(numba.__version__)


class _NoMachineCode:
    """In place of a part's code generator."""

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: a part has no address that its environment could be written to."""


class _PartLibrary(codegen.JITCodeLibrary):
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


class _EntryLibrary(codegen.JITCodeLibrary):
    """Code of a function that Python calls, with all parts that it reaches."""

    def _optimize_functions(self, module: Any) -> None:
        """Leave that to the optimization of all."""

    def finalize(self) -> None:
        self._linking_libraries: list[Any] = list(_all_reached(self._linking_libraries))
        super().finalize()

    def _optimize_final_module(self) -> None:
        parts = [library for library in self._linking_libraries if isinstance(library, _PartLibrary)]
        own = {function.name for part in parts for function in part.get_defined_functions()}
        for function in self._final_module.functions:
            if function.name in own:
                function.linkage = "internal"
        # Once, without vectors and with a third of the usual inlining: half of what numba's two rounds take, and the
        # loop runs as fast.
        options = create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = False
        options.inlining_threshold = 75
        builder = create_pass_builder(self._codegen._tm, options)  # noqa: SLF001 - numba has no other way
        builder.getModulePassManager().run(self._final_module, builder)


def _all_reached(libraries: Sequence[Any]) -> Iterator[Any]:
    """Yield libraries, and those that parts among them reach, once each."""
    reached, left = set(), list(libraries)
    while left:
        library = left.pop()
        if library not in reached:
            reached.add(library)
            yield library
            left += library.reached() if isinstance(library, _PartLibrary) else ()


PASSES: Any = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
"""Those of numba's that this code needs: it has no closures, expressions of arrays or branches to prune."""


class _Passes(PassManager):
    """Runs them without noting what events, times and errors would need."""

    def _runPass(self, _: int, step: Any, state: Any) -> None:  # noqa: N802 - numba's name
        step.run_initialization(state)
        step.run_pass(state)
        step.run_finalizer(state)


class _Typing:
    """Numba's typing context, which looks the types of each call up once."""

    _signatures: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        if kws or not isinstance(function, numba.types.Function):
            return self._context.resolve_function_type(function, args, kws)
        key = function, tuple(args)
        if key not in self._signatures:
            self._signatures[key] = self._context.resolve_function_type(function, args, kws)
        return self._signatures[key]


class _Whole:
    """How a named tuple is handed on: as it is, not value by value."""

    def __init__(self, model: Any) -> None:
        self.get_argument_type = model.get_value_type

    def as_argument(self, _: Any, value: Any) -> Any:
        """Return what is handed on."""
        return value

    from_argument = as_argument


class _Models:
    """Numba's models of types, but for arguments."""

    @staticmethod
    def lookup(kind: Any) -> Any:
        """Return the model of a type."""
        model = default_manager.lookup(kind)
        return _Whole(model) if isinstance(kind, numba.types.BaseNamedTuple) else model


@cache
def _packer(args: Any) -> Any:
    """What lays arguments of these types out, made once."""
    return ArgPacker(_Models, args)


def _call_of(description: Any, libraries: Any) -> Any:
    """Return what writes a call of a part, which raises nothing."""

    def call(context: Any, builder: Any, _: Any, args: Any) -> Any:
        part = context.declare_function(builder.module, description)
        result = cgutils.alloca_once(builder, part.args[0].type.pointee)
        given = context.get_arg_packer(description.argtypes).as_arguments(builder, args)
        builder.call(part, [result, builder.function.args[1], *given])
        return context.get_returned_value(builder, description.restype, builder.load(result))

    call.signature, call.libs = description.argtypes, tuple(libraries)  # type: ignore[attr-defined]
    return call


class PartCompiler(compiler.Compiler):
    """Compiles a part: ``pipeline_class`` of `numba.njit`."""

    library: Any = _PartLibrary

    def define_pipelines(self) -> Sequence[Any]:
        """Return one of the passes that this code needs."""
        manager = _Passes("part")
        for each in PASSES:
            manager.add_pass(each)
        manager.finalize()
        return [manager]

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library of its kind."""
        self.state.typingctx = _Typing(self.state.typingctx)
        context = self.state.targetctx
        context.get_arg_packer = _packer
        context.insert_user_function = lambda function, description, libraries=(): context._defns[function].append(  # noqa: SLF001
            _call_of(description, libraries), description.argtypes
        )
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class EntryCompiler(PartCompiler):
    """Compiles an entry: ``pipeline_class`` of `numba.njit`."""

    library = _EntryLibrary


COMPILED = ("compiled.py", "outcome.py", "rows.py", "times.py", "engine/*.py")
"""Modules that have compiled functions, or constants of theirs."""
REMARK = "compiling the simulator for this machine (once, about 15 seconds)"
REMARK_UNKEPT = (
    "compiling the simulator (about 15 seconds, every time, because no cache folder is writable; set "
    "XDG_CACHE_HOME to one)"
)
"""What whoever waits for it is told, and whoever will wait again."""
F = TypeVar("F", bound=Callable[..., Any])
_NJIT: Any = numba.njit
"""Some of its options are missing in its type."""
_COMMON = {"error_model": "numpy", "_nrt": False}
"""Options of all functions. No references to arrays are counted, which took four fifths of the time: whoever calls an
entry holds its arrays, and compiled code makes none."""


class InFolderOfSources(UserProvidedCacheLocator):
    """Finds kept code in the folder that is named after the sources, wherever these are installed."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the name of the module's package; the usual one is made from the path."""
        return Path(py_file).parent.name

    def get_source_stamp(self) -> str:
        """Return nothing that changes: the folder's name does."""
        return ""


def entry(function: F) -> F:
    """Return a function compiled to machine code at its first call, and read from disk in later processes.

    ``function.py_func`` is the plain one.
    """
    options = {**_COMMON, "no_cfunc_wrapper": True, "pipeline_class": EntryCompiler}
    part: Any = compiled(function)
    # Unlike other parts it is compiled for each constant: `step_seconds` is faster by itself without prompts.
    part.__class__ = CPUDispatcher
    kept_in, settings = _kept_in(), vars(numba.config)
    own = {"CACHE_DIR": str(kept_in), "CACHE_LOCATOR_CLASSES": f"{__name__}.{InFolderOfSources.__name__}"}
    usual = {name: settings[name] for name in own}
    settings.update(own)
    try:
        made: Any = _NJIT(cache=kept_in is not None, **options)(function)
    finally:
        settings.update(usual)
    made.__class__, made.part = _Entry, part
    if kept_in is not None:
        cache = made._cache  # noqa: SLF001 - numba has no other way
        cache.save_overload = _unless_full(cache.save_overload)
        # Without `load_overload`, which first loads all that compiling would need.
        cache.load_overload = cache._load_overload  # noqa: SLF001
    return cast("F", made)


class _Entry(CPUDispatcher):
    """A function that Python calls; compiled code calls its twin, a part."""

    part: Any

    @property
    def _numba_type_(self) -> Any:
        return numba.types.Dispatcher(self.part)


def _unless_full(save: Callable[..., None]) -> Callable[..., None]:
    """Go on without what a full disk does not keep."""

    def saved(*of: Any) -> None:
        with suppress(OSError):
            save(*of)

    return saved


class _Part(CPUDispatcher):
    """A function that has no way in from Python: a call would end the process."""

    def get_call_template(self, args: Sequence[Any], kws: Any) -> Any:
        """Compile it once for all values: constants among its arguments are of no type of their own."""
        plain: Any = numba.types.unliteral
        return super().get_call_template(tuple(map(plain, args)), {name: plain(of) for name, of in kws.items()})

    def __call__(self, *_: object, **__: object) -> None:
        raise TypeError(f"{self.py_func.__name__} is called by compiled code; in Python call its py_func")


def compiled(function: F) -> F:
    """Return a function that only compiled code calls: a part of the entries that reach it.

    ``function.py_func`` is the plain one.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}
    part: Any = _NJIT(**_COMMON, **options)(function)
    part.__class__ = _Part
    return cast("F", part)


def is_kept(function: Callable[..., Any]) -> bool:
    """Return whether code of an entry is on disk, so that its first call need not compile it."""
    kept_in = _kept_in()
    return kept_in is not None and any(kept_in.glob(f"**/*.{function.__name__}-*.nbc"))


@contextmanager
def compiling_once(function: Callable[..., Any]) -> Iterator[None]:
    """Remark that an entry will be compiled, where it is, and let processes that need it at the same time do so once.

    The others wait and read it from disk.
    """
    if getattr(function, "signatures", ()) or is_kept(function):
        yield
        return
    kept_in = _kept_in()
    remark(REMARK if kept_in is not None else REMARK_UNKEPT)
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:  # Windows: each compiles by itself
        kept_in = None
    if kept_in is None:
        yield
        return
    with (kept_in / f"{function.__name__}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


@cache
def _kept_in() -> Path | None:
    """The folder of the compiled code of these very sources; None where nothing can be written."""
    package = Path(__file__).parent
    processor = f"{get_host_cpu_name()} {get_host_cpu_features().flatten()}"
    of_sources = blake2b(f"{numba.__version__} {processor}".encode(), digest_size=8)
    for path in sorted(path for part in COMPILED for path in package.glob(part)):
        of_sources.update(path.read_bytes())
    for caches in (_of_caches, folders.temporary):
        # A home may be read-only, or the user have none: RuntimeError.
        with suppress(OSError, RuntimeError):
            folder = caches() / of_sources.hexdigest()
            folder.mkdir(parents=True, exist_ok=True)
            if access(folder, W_OK):
                return folder
    return None


def _of_caches() -> Path:
    """The folder of compiled code among the user's caches."""
    return Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sightline" / "compiled"
