"""The common path of machine code, the instructions on it, and the times that follow, of a kernel written by hand."""

from __future__ import annotations

import re

import pytest

from benchmarks.rates.cards import CARDS, TURING, Board
from benchmarks.rates.counting import Work, executed, pipe
from benchmarks.rates.disassembly import Block, Instruction, functions
from benchmarks.rates.paths import common_path

STRAIGHT = """
        .global         compute
compute:
.text.compute:
        /*0000*/                   S2R R0, SR_CTAID.X ;
        /*0010*/                   ISETP.GE.U32.AND P0, PT, R0, c[0x0][0x184], PT ;
        /*0020*/               @P0 EXIT ;
        /*0030*/                   LDG.E.128 R4, [R2.64] ;
        /*0040*/                   DADD R8, R4, R6 ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
.L_x_0:
        /*0060*/                   STG.E.64 [R2.64], R8 ;
        /*0070*/                   EXIT ;
.L_x_1:
        /*0080*/                   DFMA R8, R4, R6, R8 ;
        /*0090*/                   LDG.E R10, [R2.64] ;
        /*00a0*/                   CALL.REL.NOINC `($compute$settle) ;
        /*00b0*/                   BRA `(.L_x_0) ;
        .type           $compute$settle,@function
$compute$settle:
        /*00c0*/                   DMUL R8, R8, R8 ;
        /*00d0*/                   RET.REL.NODEC R18 `(compute) ;
"""
"""It leaves early, or loads, adds and stores; a rare branch settles the result."""

LOOPING = """
sums:
        /*0000*/                   MOV R1, RZ ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, [R2.64] ;
        /*0020*/                   DADD R8, R4, R8 ;
        /*0030*/                   F2F.F64.F32 R6, R4 ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/               @P1 BRA `(.L_x_2) ;
.L_x_1:
        /*0060*/                   LDG.E R4, [R2.64] ;
        /*0070*/                   DADD R8, R4, R8 ;
        /*0080*/               @P2 BRA `(.L_x_1) ;
.L_x_2:
        /*0090*/                   STG.E.64 [R2.64], R8 ;
        /*00a0*/                   EXIT ;
"""
"""A loop over vectors, and one over the elements that are left over."""

CONVERGED = """
sums:
        /*0000*/                   LDG.E R4, [R2.64] ;
        /*0010*/                   BRA.CONV ~URZ, `(.L_x_0) ;
        /*0020*/                   CALL.REL.NOINC `($warpsync) ;
.L_x_0:
        /*0030*/                   BRA.DIV UR4, `(.L_x_1) ;
        /*0040*/                   STG.E [R2.64], R4 ;
        /*0050*/                   EXIT ;
.L_x_1:
        /*0060*/                   STG.E.128 [R2.64], R4 ;
        /*0070*/                   EXIT ;
"""
"""A branch around what a warp does whose lanes have diverged, and a branch to it."""

_STEPS = " DADD R4, R4, R4 ;\n" * 40
_SKIPS = "".join(f" @P0 BRA `(.L_x_{k}) ;\n DMUL R4, R4, R4 ;\n.L_x_{k}:\n FADD R4, R4, R4 ;\n" for k in range(10, 16))

CHAIN = f"""
sums:
 LDG.E R4, [R2.64] ;
 @P1 BRA `(.L_x_1) ;
{_STEPS} BRA `(.L_x_2) ;
.L_x_1:
{_SKIPS}.L_x_2:
 STG.E [R2.64], R4 ;
 EXIT ;
"""
"""Straight code, and a shorter way whose every step may be skipped."""


def names(blocks: list[Block]) -> set[str]:
    return {each.name for each in common_path(blocks).counts}


def test_each_function_has_the_blocks_it_can_reach():
    found = functions(STRAIGHT)
    assert list(found) == ["compute", "$compute$settle"]
    assert [block.next for block in found["compute"]] == [[1], [2, 3], [3], []]
    assert [block.next for block in found["$compute$settle"]] == [[]]


def test_the_common_path_moves_the_data_and_leaves_out_what_is_rare():
    assert names(functions(STRAIGHT)["compute"]) == {
        *("S2R", "ISETP.GE.U32.AND", "EXIT", "LDG.E.128", "DADD", "BRA", "STG.E.64")
    }


def test_lanes_of_a_warp_stay_together():
    assert names(functions(CONVERGED)["sums"]) == {"LDG.E", "BRA.CONV", "BRA.DIV", "STG.E", "EXIT"}


def test_the_common_path_does_not_skip_step_after_step():
    text = re.sub(r"^ ", "        /*0000*/ ", CHAIN, flags=re.MULTILINE)
    assert names(functions(text)["sums"]) == {"LDG.E", "BRA", "DADD", "STG.E", "EXIT"}


@pytest.mark.parametrize(
    ("name", "width"), [("LDG.E.128", 16), ("STG.E.U16", 2), ("LD.E.128.STRONG.GPU", 0), ("DADD", 0)]
)
def test_what_blocks_tell_each_other_is_no_traffic(name, width):
    assert Instruction(name).width == width


def test_instructions_of_straight_code_are_those_of_all_threads():
    found = executed(common_path(functions(STRAIGHT)["compute"]), 1000, Work(16_000, 8_000))
    assert (found["float64"], found["memory"], found["integer"], found["issue"]) == (1000, 2000, 1000, 8000)


def test_a_loop_runs_until_everything_is_read_and_the_loop_of_the_rest_not_at_all():
    found = executed(common_path(functions(LOOPING)["sums"]), 10, Work(16 * 10 * 7, 80))
    assert (found["float64"], found["conversions"]) == (70, 70)
    assert found["memory"] == 70 + 10


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("DFMA", "float64"),
        ("FFMA.RM", "float32"),
        ("IMAD.WIDE.U32", "float32"),
        ("LOP3.LUT", "integer"),
        ("F2F.F64.F32", "conversions"),
        ("F2I.S64.F64", "conversions"),
        ("I2F.U32", "special"),
        ("MUFU.RCP64H", "special"),
        ("LDS.128", "memory"),
        ("IMMA.16832.S8.S8", "tensor"),
        ("UIADD3", ""),
        ("BAR.SYNC", ""),
    ],
)
def test_each_instruction_has_its_pipe(name, found):
    assert pipe(name) == found


def test_times_are_counts_by_what_all_multiprocessors_complete():
    card = Board("card", TURING, 10, 2.0, 100, 100, "made up")
    found = card.seconds({"float64": 2e9, "conversions": 2e9, "issue": 128e9})
    assert found["float64"] == pytest.approx(4e9 / (10 * 2 * 2e9))  # conversions take the same units
    assert found["issue"] == pytest.approx(128e9 / (10 * 128 * 2e9))
    assert found["integer"] == 0


def test_peak_rates_are_those_of_the_documents():
    """FLOAT32 operations in 10**12 per second, of which a fused multiplication and addition are two."""
    peaks = {card.name: 2 * card.per_second("float32") / 1e12 for card in CARDS}
    documented = {"RTX 4090": 82.6, "L4": 30.3, "T4": 8.1, "A10": 31.2, "L40S": 91.6, "RTX 5090": 104.8, "H100": 67}
    assert {name: peaks[name] for name in documented} == pytest.approx(documented, rel=0.01)
