"""Eight floats at a time: a value type for kernels and its functions.

By default, LLVM guards every loop over a row against overlapping arrays, which at eight dimensions costs more than
the row itself. Here a row is loaded as a value, so there is nothing to guard: two to three times the speed of plain
loops. Kernels pad rows with zeros to multiples of `LANES`.

`load` and `store` take a flat float32 array and the index of the first element. Operators work between
vectors, and between a vector and a scalar. NaN in, NaN out.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import ir

from purerec.jit.decorator import Scalar, intrinsic, kernel

# Numba's own annotations do not cover its extension interface.
types: Any = numba.types
models: Any = numba.extending.models
lower_builtin: Any = numba.extending.lower_builtin
register_model: Any = numba.extending.register_model
type_callable: Any = numba.extending.type_callable

LANES = 8
Vector = Any
"""An F32x8 inside a kernel."""

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_VECTOR, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_FUSE = ("contract",)  # a * b + c may become one instruction; nothing else is relaxed


class F32x8(types.Type):  # type: ignore[misc]  # its base is Any: numba is untyped
    def __init__(self) -> None:
        super().__init__(name="F32x8")


f32x8 = F32x8()


@register_model(F32x8)
class _F32x8Model(models.PrimitiveModel):  # type: ignore[misc]  # likewise
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _broadcast(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, _INT(0))
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_INTS, [0] * LANES))


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [ir.Constant(_FLOAT, float(np.float32(value)))] * LANES)


def _as_vector(context: Any, builder: Any, value: Any, type_: Any) -> Any:
    if isinstance(type_, F32x8):
        return value
    return _broadcast(builder, context.cast(builder, value, type_, types.float32))


def _register_operator(op: Any, method: str) -> None:
    def typer(context: Any) -> Any:
        def check(a: Any, b: Any) -> Any:
            kinds = [isinstance(x, F32x8) for x in (a, b)]
            if any(kinds) and all(
                is_vector or isinstance(x, types.Number) for is_vector, x in zip(kinds, (a, b), strict=True)
            ):
                return f32x8
            return None

        return check

    type_callable(op)(typer)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (_as_vector(context, builder, x, t) for x, t in zip(args, signature.args, strict=True))
        return getattr(builder, method)(a, b, flags=_FUSE)

    for kinds in ((F32x8, F32x8), (F32x8, types.Number), (types.Number, F32x8)):
        lower_builtin(op, *kinds)(lower)


for _op, _method in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _register_operator(_op, _method)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *args), align=4)

    return f32x8(array, types.int64), codegen


@intrinsic
def store(typingctx: Any, array: Any, index: Any, vector: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature.args[0], *args[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, f32x8), codegen


@intrinsic
def splat(typingctx: Any, scalar: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _broadcast(builder, args[0])

    return f32x8(types.float32), codegen


@intrinsic
def total(typingctx: Any, vector: Any) -> Any:
    """Sum of the eight lanes, in a fixed order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v = args[0]
        for half in (4, 2, 1):
            lanes = [ir.Constant(_INTS, list(range(k, k + half)) + [0] * (LANES - half)) for k in (0, half)]
            v = builder.fadd(*(builder.shuffle_vector(v, v, lane) for lane in lanes), flags=_FUSE)
        return builder.extract_element(v, _INT(0))

    return types.float32(f32x8), codegen


@intrinsic
def first_lanes(typingctx: Any, n: Any) -> Any:
    """1 in the first n lanes, 0 in the others."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        undefined = ir.Constant(_INTS, ir.Undefined)
        limit = builder.insert_element(undefined, builder.trunc(args[0], _INT), _INT(0))
        limit = builder.shuffle_vector(limit, undefined, ir.Constant(_INTS, [0] * LANES))
        below = builder.icmp_signed("<", ir.Constant(_INTS, list(range(LANES))), limit)
        return builder.select(below, _constant(1.0), _constant(0.0))

    return f32x8(types.int64), codegen


@intrinsic
def where_positive(typingctx: Any, condition: Any, yes: Any, no: Any) -> Any:
    """Per lane `yes` if condition > 0, else (also for NaN) `no`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], _constant(0.0)), args[1], args[2])

    return f32x8(f32x8, f32x8, f32x8), codegen


def _unary(name: str) -> Any:
    def typed(typingctx: Any, vector: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            shape = ir.FunctionType(_VECTOR, [_VECTOR])
            return builder.call(builder.module.declare_intrinsic(name, (), shape), args)

        return f32x8(f32x8), codegen

    return intrinsic(typed)


root = _unary("llvm.sqrt.v8f32")
absolute = _unary("llvm.fabs.v8f32")
_nearest = _unary("llvm.rint.v8f32")


@intrinsic
def _power_of_two(typingctx: Any, whole: Any) -> Any:
    """2^x for whole x between -126 and 127."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shape = ir.FunctionType(_INTS, [_VECTOR])  # saturating: also defined for NaN
        n = builder.call(builder.module.declare_intrinsic("llvm.fptosi.sat.v8i32.v8f32", (), shape), args)
        biased = builder.add(n, ir.Constant(_INTS, [127] * LANES))
        return builder.bitcast(builder.shl(biased, ir.Constant(_INTS, [23] * LANES)), _VECTOR)

    return f32x8(f32x8), codegen


@intrinsic
def _split_exponent(typingctx: Any, vector: Any) -> Any:
    """(e, m) with x = m * 2^e, m in [1, 2), for normal positive x."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], _INTS)
        biased = builder.lshr(bits, ir.Constant(_INTS, [23] * LANES))
        exponent = builder.sitofp(builder.sub(biased, ir.Constant(_INTS, [127] * LANES)), _VECTOR)
        fraction = builder.and_(bits, ir.Constant(_INTS, [0x7FFFFF] * LANES))
        mantissa = builder.bitcast(builder.or_(fraction, ir.Constant(_INTS, [127 << 23] * LANES)), _VECTOR)
        return context.make_tuple(builder, signature.return_type, [exponent, mantissa])

    return types.UniTuple(f32x8, 2)(f32x8), codegen


_LOG2_E, _LN2_HIGH, _LN2_LOW = (
    np.float32(1.4426950408889634),
    np.float32(0.693359375),
    np.float32(-2.12194440e-4),
)
_LN2, _ROOT_HALF = np.float32(0.6931471805599453), np.float32(1.4142135623730951)
_SMALLEST_EXPONENT = np.float32(-87.0)
_HALF, _ONE, _TWO, _ZERO = np.float32(0.5), np.float32(1.0), np.float32(2.0), np.float32(0.0)
_E2, _E3, _E4, _E5, _E6, _E7 = (np.float32(1.0 / f) for f in (2, 6, 24, 120, 720, 5040))
_L1, _L2, _L3, _L4, _L5, _L6, _L7 = (np.float32(1.0 / (2 * k + 1)) for k in range(1, 8))


@kernel(inner=True)
def exp_negative(x: Vector) -> Vector:
    """exp(x) for x <= 0, to about one rounding; x below -87 counts as -87 (1e-38)."""
    low = splat(_SMALLEST_EXPONENT)
    x = where_positive(low - x, low, x)
    n = _nearest(x * _LOG2_E)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((((r * _E7 + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _E2) * r + _ONE) * r + _ONE
    return p * _power_of_two(n)


@kernel(inner=True)
def log_1_plus(t: Vector) -> Vector:
    """log(1 + t) for 0 <= t <= 1, as 2 atanh(t / (2 + t))."""
    s = t / (t + _TWO)
    q = s * s
    series = ((((((q * _L7 + _L6) * q + _L5) * q + _L4) * q + _L3) * q + _L2) * q + _L1) * q + _ONE
    return _TWO * s * series


@kernel(inner=True)
def log_positive(x: Vector) -> Vector:
    """Natural logarithm of normal positive x."""
    exponent, m = _split_exponent(x)
    too_high = m - _ROOT_HALF
    m = where_positive(too_high, m * _HALF, m)
    exponent = where_positive(too_high, exponent + _ONE, exponent)
    s = (m - _ONE) / (m + _ONE)
    q = s * s
    series = ((((q * _L5 + _L4) * q + _L3) * q + _L2) * q + _L1) * q + _ONE
    return exponent * _LN2 + _TWO * s * series


@kernel(inner=True)
def sigmoid_softplus(x: Vector) -> tuple[Vector, Vector]:
    """sigmoid(x) and log(1 + exp(x)); neither overflows, however large |x| is."""
    t = exp_negative(splat(_ZERO) - absolute(x))
    inverse = _ONE / (t + _ONE)
    sigmoid = where_positive(x, inverse, t * inverse)
    positive_part = where_positive(splat(_ZERO) - x, splat(_ZERO), x)  # in this order, a NaN passes through
    return sigmoid, positive_part + log_1_plus(t)


@kernel()
def probe(x: Scalar, out: Any) -> None:
    """All functions of one value at once, so that tests can check them from Python."""
    v = splat(x)
    s, p = sigmoid_softplus(v)
    out[0], out[1] = total(s) / LANES, total(p) / LANES
    out[2] = total(log_positive(absolute(v))) / LANES
    out[3] = total(exp_negative(splat(_ZERO) - absolute(v))) / LANES
