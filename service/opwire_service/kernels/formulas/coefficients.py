"""Coefficients of the polynomials and rational approximations in ``quick`` and ``erf``, highest power first.

Some leading coefficients have only 21 bits, what fits into an immediate operand of a GPU instruction. ``WITHIN`` bounds
the deviations from the functions; ``scripts/coefficients.py`` proves that.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import NamedTuple


class Stepped(NamedTuple):
    """A polynomial evaluated with about half the multiplications that its degree suggests.

    Dividing by ``t*t + a`` leaves a constant remainder where ``t*t = -a`` is a root of the polynomial's odd part; the
    quotient is divided likewise.

    Attributes:
        first: coefficients of the last quotient, highest power first.
        steps: pairs ``(a, b)``, each turning ``value`` into ``value * (t*t + a) + b``.
    """

    first: tuple[float, ...]
    steps: tuple[tuple[float, float], ...]


@cache
def expanded(polynomial: Stepped) -> tuple[float, ...]:
    """Returns the coefficients of the powers, each rounded once."""
    found = [Fraction(each) for each in polynomial.first]
    for moved, added in polynomial.steps:
        shifted = [Fraction(0), Fraction(0), *(each * Fraction(moved) for each in found)]
        found = [a + b for a, b in zip([*found, Fraction(0), Fraction(0)], shifted, strict=True)]
        found[-1] += Fraction(added)
    return tuple(map(float, found))


EXP2 = (
    9.169593795377295e-08,
    1.3255175872473046e-06,
    1.5258483472280204e-05,
    0.00015403458382934332,
    0.0013333547252550014,
    0.009618129155452031,
    0.05550410874371244,
    0.2402265069577547,
    0.6931471805581304,
    1.0,
)
"""2**f for abs(f) <= 1/2."""

EXP2_OF_SIXTEENTH = (
    1.4676387238549773e-07,
    1.355120515509402e-05,
    0.0009383847926296645,
    0.04332169876016053,
)
"""(2**(f/16) - 1) / f for abs(f) <= 1/2."""

EXP2M1 = (
    1.0203121396696503e-07,
    1.325522490279486e-06,
    1.5252686844819e-05,
    0.0001540345585236337,
    0.0013333558179045035,
    0.009618129159402652,
    0.05550410866476042,
    0.2402265069581299,
    0.6931471805599453,
)
"""(2**f - 1) / f, likewise."""

EXP_REST = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5)
"""(e**r - 1 - r) / (r*r) for r up to log(2)/32: its power series."""

EXP_REST_OF_PAIRS = EXP_REST[2:]
"""The same up to log(2)/512."""

EXP_REST_OF_FLOATS = (
    0.0013950987486168742,
    0.008369175717234612,
    0.04166619852185249,
    0.16666516661643982,
    0.5,
)
"""The same up to log(2)/2, as floats."""

LOG = (
    0.19610238075256348,
    0.2217409610748291,
    0.2857216996261506,
    0.39999994857317417,
    0.6666666667957222,
    1.9999999999999518,
)
"""2*atanh(s)/s as a polynomial of s*s up to 0.02946."""

LOG2 = (
    0.24293321046574423,
    0.2614428633319265,
    0.3206164298462851,
    0.412198401475515,
    0.5770780172498386,
    0.9617966939243268,
    2.885390081777927,
)
"""The same divided by log(2)."""

LOG1P = (
    0.20085442066192627,
    0.1406404972076416,
    0.18311071395874023,
    0.2221532202097512,
    0.28571627073399075,
    0.39999997206840265,
    0.6666666668160605,
    1.9999999999999045,
)
"""2*atanh(s)/s as a polynomial of s*s up to 1/9."""

SINH = (
    2.763068550848402e-06,
    0.00019841198809444904,
    0.00833333335799815,
    0.16666666666647523,
    1.0,
)
"""sinh(r)/r as a polynomial of r*r up to (log(2)/2)**2."""

COSH = (
    2.488214522600174e-05,
    0.0013888804242014885,
    0.04166666704778385,
    0.4999999999938796,
    1.0,
)
"""cosh(r), likewise."""

SIN_OF_HALF = (
    1.5406220743585664e-10,
    -2.5029976313817315e-08,
    2.7556947775177817e-06,
    -0.00019841266674236208,
    0.008333333320873153,
    -0.16666666666503843,
    1.0,
)
"""sin(r)/r as a polynomial of r*r, for r up to pi/2 and a little more."""

TAN = (0.0020326925441622734, -0.12134284671273884, 1.0)

TAN_OVER = (-9.745888472847469e-05, 0.020258085933998197, -0.45467618004797117, 1.0)
"""tan(r)/r as a quotient of polynomials of r*r, for r up to pi/4 and a little more."""

ATAN = (
    0.03086625039577484,
    -0.05889120697975159,
    0.07568001747131348,
    -0.09079056978225708,
    0.11110442876815796,
    -0.1428569324803779,
    0.19999999679089686,
    -0.3333333333173727,
    1.0,
)
"""atan(s)/s as a polynomial of s*s, for s up to tan(pi/8)."""

ASIN = (
    0.031913578510284424,
    -0.002807263284921646,
    0.018606752157211304,
    0.016483619809150696,
    0.02247045934200287,
    0.03037530530494267,
    0.044643108838875206,
    0.07499999536635203,
    0.16666666669539518,
    1.0,
)
"""asin(t)/t as a polynomial of t*t, for t up to 1/2."""

TANH = Stepped(
    (92.62917405294925, 112266.77103717571),
    ((334415.02715932275, -35000699044.02596), (2770.9550064842197, -6448416102796.461)),
)

TANH_OVER = Stepped(
    (1.0, 4066.9240329977333, 2091697.054872487),
    ((83002.56462951089, -157279321875.30484), (844.8900608346487, -13204770771612.875)),
)
"""tanh(x)/x as a quotient of polynomials of x*x, for x up to 9.02."""

ERF = Stepped(
    (-0.00011119145538239164, 0.05879520604823504, 8.224966556249555),
    (
        (2572.777841544937, -19094.844930879986),
        (164.47688703015206, -119310.31529549159),
        (53.77932368938844, -4089572.9428968686),
    ),
)

ERF_OVER = Stepped(
    (1.0, 38.489024374143156),
    (
        (657.9107049190125, -20033.585779060213),
        (138.4691117796749, -310159.15329187794),
        (38.2125688780376, -9246056.447536677),
    ),
)
"""erf(x)/x as a quotient of polynomials of x*x, for x up to 4."""

TAIL = Stepped(
    (0.3989423329325169, 6.623586826915144, 37.4030429626285),
    ((30.730871341977686, -738.5838118151646), (6.34684875958102, -1478.2218230615213)),
)

TAIL_OVER = Stepped(
    (1.0, 16.602880781298225),
    (
        (115.25610695319351, -1556.596657443374),
        (13.82399189083484, -2727.246522521508),
        (2.7527516296451915, -3818.6576043000114),
    ),
)
"""exp(x*x/2)*erfc(x/sqrt(2))/2 as a quotient of polynomials, for x from 0 to 14.85."""

ERF_NEAR = (
    -7.795898827002142e-10,
    1.3720064546777686e-08,
    -1.6208483801871705e-07,
    1.6447424703317362e-06,
    -1.492473690741966e-05,
    0.00012055294904839707,
    -0.0008548325975389692,
    0.0052239776071164225,
    -0.02686617064323777,
    0.11283791670945006,
    -0.37612638903183543,
    1.1283791670955126,
)
"""erf(x)/x as a polynomial of x*x, for x up to 1."""

ERFC = (
    3.2052623379289157e-10,
    -2.618520156503145e-09,
    -3.798189797736207e-09,
    3.195398612057818e-08,
    2.3398534313040898e-08,
    -2.4851108650210706e-07,
    -5.741076073013916e-08,
    1.7419011945194367e-06,
    -9.733875167494142e-07,
    -1.1437980374495534e-05,
    2.2384138525656757e-05,
    5.164649341002877e-05,
    -0.00029015404203352704,
    0.000293714390578856,
    0.001755625843431864,
    -0.00974657968596217,
    0.028362277420377335,
    -0.05869339857631061,
    0.09230432116025894,
    -0.10880393014246645,
    0.08227673849014977,
    0.003585415485479575,
    -0.14024059858554702,
    1.2375126308378275,
)
"""(1 + 2*x) * exp(x*x) * erfc(x) as a polynomial of (x - 3.75)/(x + 3.75), for x up to 27.3; erfc is 0 beyond."""

ERFC_MIDDLE = 3.75

WITHIN: Mapping[str, float] = {
    "EXP2": 42.7,
    "EXP2_OF_SIXTEENTH": 38.5,
    "EXP2M1": 43.3,
    "EXP_REST": 38.8,
    "EXP_REST_OF_PAIRS": 34.4,
    "EXP_REST_OF_FLOATS": 21.5,
    "LOG": 44.9,
    "LOG2": 52.0,
    "LOG1P": 43.4,
    "SINH": 48.3,
    "COSH": 44.8,
    "SIN_OF_HALF": 43.5,
    "TAN": 45.0,
    "ATAN": 44.4,
    "ASIN": 42.6,
    "TANH": 39.48,
    "ERF": 41.0,
    "TAIL": 39.6,
    "ERF_NEAR": 54.3,
    "ERFC": 52.9,
}
"""Bounds on the relative errors, as bits: an error of at most 2**-bits."""

SINGLES: Mapping[tuple[float, ...], int] = {
    EXP2: 4,
    EXP2M1: 3,
    LOG: 3,
    LOG2: 3,
    LOG1P: 3,
    SINH: 2,
    COSH: 2,
    SIN_OF_HALF: 2,
    TAN: 1,
    TAN_OVER: 1,
    ATAN: 3,
    ASIN: 4,
}
"""How many leading coefficients of a polynomial need only FLOAT32, where others are sums of two FLOAT32.

Each term of these polynomials is smaller than the coefficient after it. ``scripts/pairs.py`` adds up the errors.
"""
