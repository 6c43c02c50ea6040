"""Makes an `OpSpec` of the options of an `FfiOp`, checked.

Raises TypeError or ValueError if options contradict each other.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, get_args

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library import handler_library
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.signature import Argument
from xla_ffi_kit.op import attribute_values, python_signature
from xla_ffi_kit.op import axes as kernel
from xla_ffi_kit.op import contract as contracts
from xla_ffi_kit.op.contract import Contract
from xla_ffi_kit.op.spec import (
    Advanced,
    AttributeType,
    Combination,
    Function,
    Operand,
    OpSpec,
    Options,
    PlatformHandler,
    ShapeFunction,
    ShardedKernelAxes,
    TargetsByDtypes,
    VmapMethod,
    each,
    message,
    target_of,
    targets_of,
)

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def declare(
    name: str,
    reference: Function | None,
    results: ShapeFunction | None,
    kernel_axes: int | None,
    dtypes: Sequence[DType | Sequence[DType]] | None,
    options: Options,
) -> OpSpec:
    """Returns the spec; the arguments are those of `FfiOp`."""
    if not isinstance(name, str):
        raise TypeError(f"FfiOp: name: expected a string, got {name!r}")
    _check_kinds(name, options)
    advanced = options.get("advanced") or Advanced()
    parameters = python_signature.parameters(name, reference, results)
    libraries = handler_library.all_of(
        options.get("libraries", ()), f"{name}: libraries"
    )
    handlers = options.get("handlers")
    # The program may register the target through `jax.ffi`, on any platform.
    if_registered = handlers is None and not libraries
    if handlers is None:
        handlers = dict.fromkeys(_platforms(name, libraries), name)
    contract = contracts.find(libraries, handlers)
    reader = _OptionReader(name, parameters, contract)
    operands, result_letters = reader.operands(
        kernel_axes, options.get("axes"), options.get("shared")
    )
    dtypes, by_dtypes = reader.targets_by_dtypes(dtypes, handlers)
    bilinear = reader.bilinear(options)
    linear = reader.among_operands("linear", options.get("linear", ()))
    spec = OpSpec(
        name=name,
        reference=reference,
        results=results,
        parameters=parameters,
        operands=operands,
        all_attributes=dict(options.get("attributes") or {}),
        dtypes=reader.dtypes(dtypes),
        result_letters=result_letters,
        handlers=by_dtypes,
        libraries=libraries,
        if_registered=if_registered,
        contract=contract.signature,
        jvp=options.get("jvp"),
        vjp=_pair(name, options.get("vjp")),
        linear_parameters=bilinear or linear,
        is_bilinear=bool(bilinear),
        transpose=options.get("transpose"),
        solves=options.get("solves"),
        aliases=dict(options.get("aliases") or {}),
        advanced=advanced,
    )
    attributes = reader.attributes(spec)
    _check_names(spec, reader)
    spec = dataclasses.replace(
        spec, all_attributes=attributes, problem=reader.problem
    )
    if not spec.problem:
        _check_together(spec)
    if contract.signature is not None:
        contracts.check(spec, contract.source, reader.keywords)
    return spec


def _platforms(name: str, libraries: Sequence[HandlerLibrary]) -> list[str]:
    """The platforms whose handlers libraries have, or may have."""
    if not libraries:
        return ["cpu", "cuda"]
    of_name = [p for library in libraries for p in library.platforms(name)]
    return of_name or [p for library in libraries for p in library.platforms()]


# --- Each option by itself ----------------------------------------------------


def check_names(name: str, options: Options) -> None:
    """TypeError for a keyword that a decorator cannot pass on to `FfiOp`."""
    for wrong in sorted(options.keys() - Options.__annotations__.keys()):
        raise TypeError(f"{name}: got an unexpected keyword argument {wrong!r}")


def among(
    op: str, what: str, kind: str, names: object, valid: Collection[str]
) -> tuple[str, ...]:
    """Names of operands or results, one or several; error for an unknown."""
    for name in each(names):
        if name not in valid:
            near = _near(name, valid)
            any_of = f"a name of the {kind} {', '.join(valid) or '(none)'}"
            expected = repr(near[0]) if near else any_of
            raise ValueError(message(op, what, expected, repr(name)))
    return tuple(map(str, each(names)))


def _near(wrong: object, valid: Collection[str]) -> list[str]:
    text = str(wrong)
    near = [n for n in valid if text in n or (len(n) > 2 and n in text)]
    return near + difflib.get_close_matches(text, valid)


def _check_kinds(name: str, options: Options) -> None:
    """TypeError for an option that is another kind of object."""
    for what, kind, noun in (
        ("handlers", Mapping, "a mapping"),
        ("attributes", Mapping, "a mapping"),
        ("aliases", Mapping, "a mapping"),
        ("advanced", Advanced, "xla_ffi_kit.Advanced(...)"),
    ):
        option = options.get(what)
        if option is not None and not isinstance(option, kind):
            raise TypeError(message(name, what, noun, repr(option)))
    advanced = options.get("advanced") or Advanced()
    if not isinstance(advanced.workspace, Mapping):
        got = repr(advanced.workspace)
        raise TypeError(message(name, "workspace", "a mapping", got))
    functions = {
        "jvp": options.get("jvp"),
        "transpose": options.get("transpose"),
        "solves": options.get("solves"),
        "linear_solve": advanced.linear_solve,
        "check": advanced.check,
        "partitioned": advanced.partitioned,
        "shape_attributes": advanced.shape_attributes,
        **{f"workspace: {p}": f for p, f in advanced.workspace.items()},
    }
    for what, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(message(name, what, "a function", repr(function)))
    for platform, handler in (options.get("handlers") or {}).items():
        if isinstance(handler, Mapping):
            is_handler = all(isinstance(t, str) for t in handler.values())
        else:
            is_handler = target_of(handler) is not None or callable(handler)
        if not is_handler:
            expected = "a custom call target, one for each dtype, or a function"
            what = f"handlers: {platform}"
            raise TypeError(message(name, what, expected, repr(handler)))
    for part in each(advanced.part_of):
        if not isinstance(part, str):
            expected = "the name of a function, or several names"
            raise TypeError(message(name, "part_of", expected, repr(part)))


def _pair(name: str, vjp: object) -> Any:
    """The option `vjp`; TypeError if it is not a pair of functions."""
    is_pair = isinstance(vjp, list | tuple) and len(vjp) == 2
    rules = vjp if isinstance(vjp, list | tuple) else ()
    if vjp is not None and not (is_pair and all(map(callable, rules))):
        expected = "a pair of functions, (fwd, bwd)"
        raise TypeError(message(name, "vjp", expected, repr(vjp)))
    return vjp


# --- With the reference's parameters and the handler's signature --------------


class _OptionReader:
    """Reads what names operands and attributes, or follows from a signature.

    Attributes:
      problem: what cannot be known before the library can be loaded.
    """

    def __init__(
        self, name: str, parameters: inspect.Signature, contract: Contract
    ) -> None:
        self._name = name
        self._contract = contract
        self.problem = ""
        members = parameters.parameters.values()
        self.keywords = [p.name for p in members if p.kind is p.KEYWORD_ONLY]
        self._positional = [p for p in members if p.kind in _POSITIONAL]
        repeated = [p for p in members if p.kind is p.VAR_POSITIONAL]
        self._is_variadic = bool(repeated)
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in members)
        self.names = [p.name for p in (*self._positional, *repeated)]
        if "implementation" in self.keywords:
            raise TypeError(
                f"{name}: attribute implementation: expected another name; "
                "calls use this one to choose the reference"
            )

    def _missing(
        self, what: str, expected: str, why: str, got: str = "none"
    ) -> None:
        """Raises for what must be declared, unless a library may yet tell."""
        expected = f"{expected}, as no signature tells: {why}"
        text = message(self._name, what, expected, got)
        if not self._contract.may_come:
            raise TypeError(text)
        self.problem = self.problem or text

    def among_operands(self, what: str, names: object) -> tuple[str, ...]:
        return among(self._name, what, "operands", names, self.names)

    def bilinear(self, options: Options) -> tuple[str, ...]:
        """The two operands of `bilinear`; none without the option."""
        option = options.get("bilinear", ())
        names = self.among_operands("bilinear", option)
        if names and options.get("linear"):
            expected, got = "one of them", "both"
            raise ValueError(
                message(self._name, "linear, bilinear", expected, got)
            )
        repeated = self.names[-1] if self._is_variadic else None
        if names and (len(set(names)) != 2 or repeated in names):
            expected = "two operands, each one array, such as ('a', 'x')"
            raise ValueError(message(self._name, "bilinear", expected, option))
        return names

    def among_results(self, what: str, results: Iterable[str | int]) -> None:
        signature, why = self._contract.signature, self._contract.why
        names = [r.name for r in signature.results] if signature else []
        for result in results:
            if isinstance(result, str) and not names:
                expected = "the index of a result"
                self._missing(what, expected, why, repr(result))
            elif not isinstance(result, int) or result < 0:
                among(self._name, what, "results", (result,), names)

    def operands(
        self, kernel_axes: int | None, axes: object, shared: object
    ) -> tuple[tuple[Operand, ...], Sequence[Sequence[str]] | None]:
        """The operands, and the names of the results' axes."""
        optional = [p.name for p in self._positional if p.default is None]
        arguments = self._arguments(optional)
        counts, letters, results = self._axes(kernel_axes, axes, arguments)
        if shared is None:
            pairs = zip(self.names, arguments, strict=False)
            shared = [name for name, a in pairs if a.is_shared]
        shared = self.among_operands("shared", shared)
        last = len(self.names) - 1
        operands = tuple(
            Operand(
                name=name,
                parameter=name,
                position=i,
                axes=counts[i],
                letters=letters[i] if letters else (),
                is_optional=name in optional,
                is_repeated=self._is_variadic and i == last,
                is_shared=name in shared,
            )
            for i, name in enumerate(self.names)
        )
        return operands, results

    def _arguments(self, optional: Sequence[str]) -> Sequence[Argument]:
        """The operands in the handler's signature, if it has one.

        Raises ValueError if the handler does not take so many.
        """
        signature = self._contract.signature
        if signature is None:
            return ()
        operands, count = signature.operands, len(self.names)
        arguments = signature.operands_of(count)
        repeats = any(operand.is_repeated for operand in operands)
        as_taken = f"as the handler {self._contract.source} takes them"
        if arguments is None or (self._is_variadic and not repeats):
            least = sum(not operand.is_optional for operand in operands)
            number = f"{least} to {len(operands)}"
            if least == len(operands):
                number = str(least)
            names = ", ".join(str(o).partition(":")[0] for o in operands)
            expected = f"{number} operands, ({names}), {as_taken}"
            got = f"{count}: ({', '.join(self.names)})"
            raise ValueError(message(self._name, "reference", expected, got))
        for name, argument in zip(self.names, arguments, strict=True):
            if name in optional and not (argument.is_optional or repeats):
                expected = f"no default None, {as_taken}"
                what = f"operand {name}"
                raise ValueError(message(self._name, what, expected, "one"))
        return arguments

    def _axes(
        self, kernel_axes: object, axes: object, arguments: Sequence[Argument]
    ) -> tuple[Sequence[int], Any, Any]:
        """Numbers of kernel axes, their names, and those of results' axes."""
        count = len(self.names)
        if axes is not None or kernel_axes is not None or not count:
            return kernel.declared(self._name, self.names, kernel_axes, axes)
        counts = [
            argument.kernel_axes
            for argument in arguments
            if argument.kernel_axes is not None
        ]
        if len(counts) < count:
            why = self._contract.why
            if arguments:
                why = f"{self._contract.source} does not say its axes"
            self._missing("axes, kernel_axes", kernel.ASKED, why)
            counts = [0] * count
        return counts, None, None

    def dtypes(
        self, dtypes: Sequence[DType | Sequence[DType]] | None
    ) -> list[tuple[str, ...]] | None:
        """The combinations of dtypes of all operands, by whole names.

        If none are declared, those of the signature, which may have none.
        """
        if dtypes is None:
            signature = self._contract.signature
            if signature is None or not signature.combinations:
                return None
            dtypes = signature.combinations
        where, count = f"{self._name}: dtypes", len(self.names)
        allowed = []
        for entry in _check.sequence(where, dtypes):
            names = [dtype.name for dtype in _dtypes.parse_each(where, entry)]
            if len(names) == 1 and not isinstance(entry, list | tuple):
                names *= count
            if len(names) != count:
                expected = f"{count} in each entry, one per operand"
                raise ValueError(
                    message(self._name, "dtypes", expected, len(names))
                )
            allowed.append(tuple(names))
        if not allowed:
            raise ValueError(f"{where}: expected at least one, got none")
        return allowed

    def targets_by_dtypes(
        self,
        dtypes: Sequence[DType | Sequence[DType]] | None,
        handlers: Mapping[str, Any],
    ) -> tuple[Any, dict[str, PlatformHandler]]:
        """The dtypes that targets are given for, and the handlers with them.

        Raises ValueError if a platform has other dtypes than the operation.
        """
        by_platform = dict(handlers)
        for platform, targets in handlers.items():
            if not isinstance(targets, Mapping):
                continue
            dtypes = list(targets) if dtypes is None else dtypes
            names = self.dtypes(list(targets)) or []
            by_names = dict(zip(names, targets.values(), strict=True))
            for entry in self.dtypes(dtypes) or []:
                if entry not in by_names:
                    expected = f"a target for {', '.join(entry)}"
                    what = f"handlers: {platform}"
                    raise ValueError(
                        message(self._name, what, expected, list(targets))
                    )
            by_platform[platform] = TargetsByDtypes(by_names)
        return dtypes, by_platform

    def attributes(self, spec: OpSpec) -> dict[str, AttributeType]:
        """The types of the attributes, declared or from the signature."""
        declared = dict(spec.all_attributes)
        for name, type_ in declared.items():
            attribute_values.kind_of(self._name, name, type_)
        if not declared.keys() <= set(self.keywords):
            self._refuse_attributes(spec, declared)
        if spec.contract is not None:
            taken = contracts.possible(spec).values()
            types = {a.name: contracts.attribute_type(a) for a in taken}
            if self._takes_any and not spec.advanced.shape_attributes:
                self.keywords += types.keys() - set(self.keywords)
            passed = {n: t for n, t in types.items() if n in self.keywords}
            return passed | declared
        missing = [name for name in self.keywords if name not in declared]
        if missing:
            expected = f"the types of {', '.join(missing)}"
            self._missing("attributes", expected, self._contract.why)
        return declared

    def _refuse_attributes(
        self, spec: OpSpec, declared: Collection[str]
    ) -> NoReturn:
        function = "reference" if spec.reference else "shape function"
        keywords = sorted(self.keywords) or "none"
        got = str(sorted(declared))
        if not set(declared).isdisjoint(self.names):
            remedy = python_signature.with_keywords(spec.parameters, declared)
            got += f"; make them keyword-only: {remedy}"
        expected = f"those of the {function}'s signature, {keywords}"
        raise TypeError(spec.error("attributes", expected, got))


def _check_names(spec: OpSpec, reader: _OptionReader) -> None:
    """Checks names of operands and results, and what is said of them."""
    advanced = spec.advanced
    reader.among_operands("aliases", spec.aliases)
    reader.among_operands("input_layouts", advanced.input_layouts)
    reader.among_results("aliases", spec.aliases.values())
    reader.among_results("shared_results", each(advanced.shared_results))
    reader.among_results("output_layouts", advanced.output_layouts)
    spec.check_places_of_results()
    for what, layouts in (
        ("input_layouts", advanced.input_layouts),
        ("output_layouts", advanced.output_layouts),
    ):
        for name, order in layouts.items():
            axes = len(order)
            if what == "input_layouts":
                axes = spec.kernel_axes[spec.operand_names.index(str(name))]
            if sorted(order) != list(range(axes)):
                expected = f"an order of {axes} kernel axes for {name}"
                raise ValueError(spec.error(what, expected, order))


def _check_together(spec: OpSpec) -> None:
    advanced = spec.advanced
    for what, words in (
        ("vmap_method", get_args(VmapMethod)),
        ("sharded_kernel_axes", get_args(ShardedKernelAxes)),
    ):
        got = getattr(advanced, what)
        if got not in words:
            raise ValueError(spec.error(what, f"one of {words}", repr(got)))
    if spec.jvp is not None and spec.vjp is not None:
        raise ValueError(spec.error("jvp, vjp", "one of them", "both"))
    if spec.advanced.differentiate is not None and (spec.jvp or spec.vjp):
        rule = "jvp" if spec.jvp else "vjp"
        expected = f"'reference' beside {rule}=, which is the derivative"
        raise ValueError(spec.error("derivatives", expected, "'kernel'"))
    if advanced.symbolic_zeros and spec.jvp is None:
        expected = "none without jvp=, which gets them"
        raise ValueError(spec.error("symbolic_zeros", expected, "True"))
    _check_solves(spec)
    _check_linear(spec)
    if spec.transpose is not None and not spec.linear_parameters:
        expected = "operands that the results are linear in, for transpose"
        raise ValueError(spec.error("linear", expected, "none"))
    for platform in advanced.workspace:
        if not targets_of(spec.handlers.get(platform)):
            expected = "platforms with a handler"
            raise ValueError(spec.error("workspace", expected, repr(platform)))
    if isinstance(advanced.shared_results, Mapping):
        words = get_args(Combination)
        if not {*advanced.shared_results.values()} <= {*words}:
            got, expected = advanced.shared_results, f"of each one of {words}"
            raise ValueError(spec.error("shared_results", expected, got))
    _check_one_batch_axis(spec)
    _check_columns(spec)
    for what, count, methods in (
        ("results", len(each(advanced.shared_results)), ["broadcast_all"]),
        ("operands", len(spec.shared), ["broadcast_all", "expand_dims"]),
    ):
        if count and advanced.vmap_method not in methods:
            either = " or ".join(map(repr, methods))
            expected = f"{either} with shared {what}"
            got = repr(advanced.vmap_method)
            raise ValueError(spec.error("vmap_method", expected, got))
    if spec.reference is None and not spec.handlers:
        expected = "at least one, as there is no reference to run"
        raise ValueError(spec.error("handlers", expected, "none"))


def _check_columns(spec: OpSpec) -> None:
    """Refuses columns that some result would not have."""
    columns, results = spec.advanced.columns, spec.result_letters or [()]
    every = [*results, *(o.letters for o in spec.operands)]
    if columns is not None and not (
        all(letters.count(columns) == 1 for letters in results)
        and all(letters.count(columns) <= 1 for letters in every)
    ):
        expected = "an axis that axes= names once in each result"
        raise ValueError(spec.error("columns", expected, repr(columns)))


def _check_one_batch_axis(spec: OpSpec) -> None:
    """Refuses what has no batch axes that could become one."""
    advanced = spec.advanced
    for what, is_other in (
        ("vmap_method='expand_dims'", advanced.vmap_method == "expand_dims"),
        ("batches_shared", advanced.batches_shared),
    ):
        if advanced.one_batch_axis and is_other:
            raise ValueError(
                spec.error("one_batch_axis", f"no {what} beside it", "both")
            )


def _check_solves(spec: OpSpec) -> None:
    """Refuses a second source of what the equation gives."""
    if spec.solves is None:
        if spec.advanced.linear_solve is not None:
            expected = "none without solves=, whose systems it solves"
            raise ValueError(spec.error("linear_solve", expected, "one"))
        return
    for what, is_given in (
        ("jvp", spec.jvp is not None),
        ("vjp", spec.vjp is not None),
        ("bilinear" if spec.is_bilinear else "linear", spec.linear_parameters),
        ("derivatives='kernel'", spec.advanced.differentiate is not None),
    ):
        if is_given:
            expected = f"none beside {what}, which is the derivative"
            raise ValueError(spec.error("solves", expected, "an equation"))
    if each(spec.advanced.shared_results):
        expected = "results of each row, which an equation of the row gives"
        got = spec.advanced.shared_results
        raise ValueError(spec.error("shared_results", expected, repr(got)))


def _check_linear(spec: OpSpec) -> None:
    """Refuses a rule that would not be called where an author expects it."""
    rule = "jvp" if spec.jvp else "vjp"
    if not (spec.jvp or spec.vjp):
        return
    linear = [o for o in spec.operands if o.parameter in spec.linear_parameters]
    is_repeated = any(operand.is_repeated for operand in linear)
    if not spec.is_bilinear and (len(linear) > 1 or is_repeated):
        names = [operand.name for operand in linear]
        raise ValueError(linear_together(spec.name, f"{rule}=", names))
    if linear and len(linear) == len(spec.operands):
        expected = "none, as results are linear in every operand"
        got = "a rule that is never called"
        raise ValueError(spec.error(rule, expected, got))


def linear_together(name: str, rule: str, operands: Sequence[str]) -> str:
    """The error of several operands in `linear` beside another rule.

    A derivative towards one of them is the operation of zeros for the others.
    Of a product, that is 0, in silence.
    """
    got = (
        f"{', '.join(operands)}: the derivative towards these is the operation "
        f"itself, linear in them together, as a + x is, and not {rule}; say "
        "bilinear=('a', 'x') if results are linear in each while the other is "
        f"fixed, as a * x is, or leave linear= out, so that {rule} gives every "
        "derivative"
    )
    return message(name, "linear", f"one operand beside {rule}", got)
