"""Makes an `OpSpec` of the options of an `FfiOp`, checked.

Raises TypeError or ValueError if options contradict each other.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn, get_args

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library import handler_library
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.signature import Argument
from xla_ffi_kit.op import (
    attribute_values,
    operand_checks,
    option_checks,
    python_signature,
)
from xla_ffi_kit.op import axes as kernel
from xla_ffi_kit.op import contract as contracts
from xla_ffi_kit.op.contract import Contract
from xla_ffi_kit.op.device_kernel import target_of
from xla_ffi_kit.op.spec import (
    Advanced,
    AttributeType,
    Function,
    Operand,
    OpSpec,
    Options,
    ShapeFunction,
    ShardedKernelAxes,
    VmapMethod,
    each,
    message,
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
    option_checks.check(name, options)
    advanced = options.get("advanced") or Advanced()
    parameters = python_signature.parameters(name, reference, results)
    libraries = handler_library.all_of(
        options.get("libraries", ()), f"{name}: libraries"
    )
    given = options.get("handlers")
    handlers = (
        dict.fromkeys(_platforms(name, libraries), name)
        if given is None
        else dict(given)
    )
    contract = contracts.find(libraries, handlers)
    reader = _Reader(name, parameters, contract)
    operands, result_letters = reader.operands(
        kernel_axes, options.get("axes"), options.get("shared")
    )
    declared = dict(options.get("attributes") or {})
    bilinear = reader.bilinear(options)
    linear = reader.among_operands("linear", options.get("linear", ()))
    spec = OpSpec(
        name=name,
        reference=reference,
        results=results,
        parameters=parameters,
        operands=operands,
        every_attribute=declared,
        dtypes=reader.dtypes(dtypes),
        result_letters=result_letters,
        handlers=handlers,
        libraries=libraries,
        # If nothing names the platforms, it may be registered on any of them.
        if_registered=given is None and not libraries,
        contract=contract.signature,
        jvp=options.get("jvp"),
        vjp=option_checks.pair(name, options.get("vjp")),
        linear_parameters=bilinear or linear,
        is_bilinear=bool(bilinear),
        transpose=options.get("transpose"),
        solves=options.get("solves"),
        aliases=dict(options.get("aliases") or {}),
        advanced=advanced,
    )
    every = reader.attributes(spec)
    _check_names(spec, reader)
    spec = dataclasses.replace(
        spec, every_attribute=every, problem=reader.problem
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
    own = [p for library in libraries for p in library.platforms(name)]
    return own or [p for library in libraries for p in library.platforms()]


class _Reader:
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
        every = parameters.parameters.values()
        self.keywords = [p.name for p in every if p.kind is p.KEYWORD_ONLY]
        self._positional = [p for p in every if p.kind in _POSITIONAL]
        more = [p for p in every if p.kind is p.VAR_POSITIONAL]
        self._is_variadic = bool(more)
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in every)
        self.names = [p.name for p in (*self._positional, *more)]
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

    def among_operands(self, what: str, given: object) -> tuple[str, ...]:
        return option_checks.among(
            *(self._name, what, "operands"), given, self.names
        )

    def bilinear(self, options: Options) -> tuple[str, ...]:
        """The two operands of `bilinear`; none without the option."""
        given = options.get("bilinear", ())
        found = self.among_operands("bilinear", given)
        if found and options.get("linear"):
            expected, got = "one of them", "both"
            raise ValueError(
                message(self._name, "linear, bilinear", expected, got)
            )
        repeated = self.names[-1] if self._is_variadic else None
        if found and (len(set(found)) != 2 or repeated in found):
            expected = "two operands, each one array, such as ('a', 'x')"
            raise ValueError(message(self._name, "bilinear", expected, given))
        return found

    def among_results(self, what: str, given: Iterable[str | int]) -> None:
        signature, why = self._contract.signature, self._contract.why
        names = [r.name for r in signature.results] if signature else []
        for result in given:
            if isinstance(result, str) and not names:
                expected = "the index of a result"
                self._missing(what, expected, why, repr(result))
            elif not isinstance(result, int) or result < 0:
                option_checks.among(
                    *(self._name, what, "results"), (result,), names
                )

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
        made = tuple(
            Operand(
                name=name,
                parameter=name,
                place=i,
                axes=counts[i],
                letters=letters[i] if letters else (),
                is_optional=name in optional,
                is_repeated=self._is_variadic and i == last,
                is_shared=name in shared,
            )
            for i, name in enumerate(self.names)
        )
        return made, results

    def _arguments(self, optional: Sequence[str]) -> Sequence[Argument]:
        """The operands in the handler's signature, if it has one.

        Raises ValueError if the handler does not take so many.
        """
        signature = self._contract.signature
        if signature is None:
            return ()
        taken, count = signature.operands, len(self.names)
        told = signature.operands_of(count)
        repeats = any(operand.is_repeated for operand in taken)
        as_taken = f"as the handler {self._contract.source} takes them"
        if told is None or (self._is_variadic and not repeats):
            least = sum(not operand.is_optional for operand in taken)
            number = f"{least} to {len(taken)}"
            if least == len(taken):
                number = str(least)
            names = ", ".join(str(o).partition(":")[0] for o in taken)
            expected = f"{number} operands, ({names}), {as_taken}"
            got = f"{count}: ({', '.join(self.names)})"
            raise ValueError(message(self._name, "reference", expected, got))
        for name, argument in zip(self.names, told, strict=True):
            if name in optional and not (argument.is_optional or repeats):
                expected = f"no default None, {as_taken}"
                what = f"operand {name}"
                raise ValueError(message(self._name, what, expected, "one"))
        return told

    def _axes(
        self, kernel_axes: object, axes: object, arguments: Sequence[Argument]
    ) -> tuple[Sequence[int], Any, Any]:
        """Numbers of kernel axes, their names, and those of results' axes."""
        count = len(self.names)
        if axes is not None or kernel_axes is not None or not count:
            return kernel.declared(self._name, self.names, kernel_axes, axes)
        told = [argument.kernel_axes for argument in arguments]
        found = [axes for axes in told if axes is not None]
        if len(found) < count:
            why = self._contract.why
            if arguments:
                why = f"{self._contract.source} does not say its axes"
            self._missing("axes, kernel_axes", kernel.ASKED, why)
            found = [0] * count
        return found, None, None

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
            found = [dtype.name for dtype in _dtypes.parse_each(where, entry)]
            if len(found) == 1 and not isinstance(entry, list | tuple):
                found *= count
            if len(found) != count:
                expected = f"{count} in each entry, one per operand"
                raise ValueError(
                    message(self._name, "dtypes", expected, len(found))
                )
            allowed.append(tuple(found))
        if not allowed:
            raise ValueError(f"{where}: expected at least one, got none")
        return allowed

    def attributes(self, spec: OpSpec) -> dict[str, AttributeType]:
        """The types of the attributes, declared or from the signature."""
        declared = dict(spec.every_attribute)
        for name, type_ in declared.items():
            attribute_values.kind_of(self._name, name, type_)
        if not declared.keys() <= set(self.keywords):
            self._refuse_attributes(spec, declared)
        if spec.contract is not None:
            told = contracts.possible(spec).values()
            types = {a.name: contracts.attribute_type(a) for a in told}
            if self._takes_any and not spec.advanced.shape_attributes:
                self.keywords += types.keys() - set(self.keywords)
            own = {n: t for n, t in types.items() if n in self.keywords}
            return own | declared
        missing = [name for name in self.keywords if name not in declared]
        if missing:
            expected = f"the types of {', '.join(missing)}"
            self._missing("attributes", expected, self._contract.why)
        return declared

    def _refuse_attributes(
        self, spec: OpSpec, declared: Collection[str]
    ) -> NoReturn:
        function = "reference" if spec.reference else "shape function"
        own = sorted(self.keywords) or "none"
        got = str(sorted(declared))
        if not set(declared).isdisjoint(self.names):
            remedy = python_signature.with_keywords(spec.parameters, declared)
            got += f"; make them keyword-only: {remedy}"
        expected = f"those of the {function}'s signature, {own}"
        raise TypeError(spec.error("attributes", expected, got))


def _check_names(spec: OpSpec, reader: _Reader) -> None:
    """Checks names of operands and results, and what is said of them."""
    advanced = spec.advanced
    reader.among_operands("aliases", spec.aliases)
    reader.among_operands("input_layouts", advanced.input_layouts)
    reader.among_results("aliases", spec.aliases.values())
    reader.among_results("shared_results", each(advanced.shared_results))
    reader.among_results("output_layouts", advanced.output_layouts)
    operand_checks.check_places_of_results(spec)
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
    for what, known in (
        ("vmap_method", get_args(VmapMethod)),
        ("sharded_kernel_axes", get_args(ShardedKernelAxes)),
    ):
        got = getattr(advanced, what)
        if got not in known:
            raise ValueError(spec.error(what, f"one of {known}", repr(got)))
    if spec.jvp is not None and spec.vjp is not None:
        raise ValueError(spec.error("jvp, vjp", "one of them", "both"))
    if spec.advanced.differentiate is not None and (spec.jvp or spec.vjp):
        what, given = "derivatives", "jvp" if spec.jvp else "vjp"
        expected = f"'reference' beside {given}=, which is the derivative"
        raise ValueError(spec.error(what, expected, "'kernel'"))
    _check_solves(spec)
    _check_linear(spec)
    if spec.transpose is not None and not spec.linear_parameters:
        expected = "operands that the results are linear in, for transpose"
        raise ValueError(spec.error("linear", expected, "none"))
    for platform in advanced.workspace:
        if target_of(spec.handlers.get(platform)) is None:
            expected = "platforms with a handler"
            raise ValueError(spec.error("workspace", expected, repr(platform)))
    if each(advanced.shared_results) and not spec.shared:
        expected = "none without shared operands"
        raise ValueError(
            spec.error("shared_results", expected, advanced.shared_results)
        )
    if spec.shared and advanced.vmap_method != "broadcast_all":
        expected = "'broadcast_all' with shared operands"
        raise ValueError(
            spec.error("vmap_method", expected, repr(advanced.vmap_method))
        )
    if spec.reference is None and not spec.handlers:
        expected = "at least one, as there is no reference to run"
        raise ValueError(spec.error("handlers", expected, "none"))


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
