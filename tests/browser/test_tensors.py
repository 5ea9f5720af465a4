"""Tensors in the page: generating, reading, printing and comparing, checked against NumPy."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.tabs import link
from tests.browser.test_try import NUMBERS, REDUCE, numbers_of, run

MODULES = "document.querySelector('link[rel=modulepreload][href*=\"app/tensor\"]').href.replace(/tensor[/].*/, '')"


def call(page: Page, module: str, expression: str, given: object = None) -> Any:
    """Evaluates an expression on a module ``m``, with ``given`` as its argument."""
    return page.evaluate(
        f"async (given) => {{ const m = await import({MODULES} + {json.dumps(module)}); return {expression}; }}", given
    )


@pytest.fixture(scope="module")
def page(tabs, console_url):
    """A page shared by the tests that only call modules."""
    context = tabs.browser.new_context()
    made = context.new_page()
    made.goto(f"{console_url}/try")
    expect(made.get_by_text("valid from")).to_be_visible()
    yield made
    context.close()


def test_every_half_converts_as_in_numpy(page):
    table = np.array(call(page, "tensor/types.js", "[...m.halfTable()].map(String)"))
    bits = np.arange(65536, dtype=np.uint16)
    wanted = bits.view(np.float16).astype(np.float64)
    shown = np.array([float(text.replace("Infinity", "inf")) for text in table])
    assert np.array_equal(shown, wanted, equal_nan=True)
    back = call(page, "tensor/types.js", "[...m.halfTable()].map(m.toHalf)")
    finite = ~np.isnan(wanted)
    assert np.array_equal(np.array(back)[finite], bits[finite])


def test_halves_are_rounded_to_even(page):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 10.0**k, 300) for k in range(-9, 6)])
    found = np.array(call(page, "tensor/types.js", "given.map(m.toHalf)", values.tolist()), np.uint16)
    with np.errstate(over="ignore"):
        assert np.array_equal(found, values.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numbers_read_back_to_the_same_value(page, dtype):
    bits = np.random.default_rng(1).integers(0, 2 ** (8 * dtype().itemsize), 2000).astype(f"u{dtype().itemsize}")
    values = bits.view(dtype)
    values = values[np.isfinite(values)].astype(np.float64)
    name = np.dtype(dtype).name.upper()
    values = values[np.abs(values) < 1e7]  # larger ones are printed padded with zeros
    texts = call(page, "tensor/print.js", f"given.map((value) => m.print('{name}', value))", values.tolist())
    assert np.array_equal(np.array(texts).astype(dtype), values.astype(dtype))
    digits = [len(text.partition("e")[0].lstrip("-0.").replace(".", "")) for text in texts]
    assert max(digits) <= (9 if dtype is np.float32 else 5)


def test_numbers_written_as_json_are_those_that_are_read(page):
    text = '[[-0.0, 0.0, 1.5], [-1e+30, "NaN", "-Infinity"]]'
    written = call(page, "json/write.js", "m.writeNumbers(JSON.parse(given))", text)
    assert written == '[[-0.0, 0, 1.5], [-1e+30, "NaN", "-Infinity"]]'


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "dtype", ["<f8", "<f4", ">f4", "<f2", "<i8", ">i8", "<u8", "<i4", "<u4", "<i2", "<u2", "|i1", "|u1"]
)
def test_npy_files_are_read(page, dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4) - 5, order="C").astype(dtype)
    file = io.BytesIO()
    np.save(file, np.asarray(array, order=order))
    found = call(
        page,
        "tensor/npy.js",
        "(({ dataType, shape, bytes }) => [dataType, shape, [...bytes]])(m.readNpy(new Uint8Array(given).buffer))",
        list(file.getvalue()),
    )
    native = np.dtype(dtype).newbyteorder("<")
    assert found == [native.name.upper(), [2, 3, 4], list(array.astype(native).tobytes("C"))]


def test_npy_headers_are_written(page):
    head = bytes(call(page, "tensor/npy.js", "[...m.npyHead('FLOAT32', [2, 3])]"))
    array = np.load(io.BytesIO(head + np.arange(6, dtype=np.float32).tobytes()))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_differences_are_counted_in_ulps(page):
    for dtype in (np.float16, np.float32, np.float64):
        start = dtype(1.5)
        other = start
        for _ in range(7):
            other = np.nextafter(other, dtype(-9))
        zero, least = np.array([0, np.nextafter(dtype(0), dtype(1))], dtype)
        pairs = np.array([[start, other], [least, -least], [zero, -zero], [np.nan, np.nan], [start, start]], dtype)
        desc = {"DataType": np.dtype(dtype).name.upper(), "Sizes": [5]}
        found = call(
            page,
            "tensor/compare.js",
            "(({ difference, ulps, ...rest }) => ({ ...rest, ulps: [...ulps] }))(m.compare("
            "given[0], new Uint8Array(given[1]), given[0], new Uint8Array(given[2])))",
            [desc, list(pairs[:, 0].tobytes()), list(pairs[:, 1].tobytes())],
        )
        assert (found["equal"], found["first"], found["mostUlp"], found["unlike"]) == (2, 0, 7, 0)
        assert list(found["ulps"]) == [7, 2, 0, 0, 0]
        assert [(each["k"], each["ulp"]) for each in found["worst"]] == [(0, 7), (1, 2), (2, 0)]


def test_the_worst_elements_are_listed_in_order(page):
    """Elements where one side is NaN are the worst; of equal ones, the first come first."""
    own = np.zeros(40, np.float32)
    other = own.copy()
    steps = {3: 5, 8: 90, 20: 7, **dict.fromkeys(range(24, 36), 2)}
    for k, ulp in steps.items():
        other.view(np.int32)[k] = ulp
    other[30] = np.nan
    found = call(
        page,
        "tensor/compare.js",
        "m.compare(given[0], new Uint8Array(given[1]), given[0], new Uint8Array(given[2])).worst.map(({ k }) => k)",
        [{"DataType": "FLOAT32", "Sizes": [40]}, list(own.tobytes()), list(other.tobytes())],
    )
    assert found == [30, 8, 20, 3, 24, 25, 26, 27, 28, 29]


def test_generators_match_the_copied_python(page, tmp_path):
    recipes = [
        {"kind": "random", "of": "uniform", "seed": 7, "low": -1.5, "high": 2},
        {"kind": "random", "of": "normal", "seed": 8, "low": 0.5, "high": 3},
        {"kind": "random", "of": "integers", "seed": 4294967295, "low": -3, "high": 9},
        {"kind": "ramp", "start": 0.5, "step": -0.25},
    ]
    for name in ("FLOAT32", "FLOAT16", "INT64", "INT8"):
        desc = {"DataType": name, "Sizes": [3, 50]}
        inputs = [{"name": f"T{i}", "desc": desc, "recipe": recipe, "base64": None} for i, recipe in enumerate(recipes)]
        request = {"url": "http://x/", "level": "6_4", "device": "auto", "text": "{}", "inputs": inputs, "hasKey": True}
        text = call(page, "snippets.js", "m.python(given)", request)
        assert "OPWIRE_API_KEY" in text
        script = (
            text.partition("with Client(")[0]
            + "import sys\nfor a in inputs.values(): sys.stdout.buffer.write(a.tobytes())"
        )
        (tmp_path / "made.py").write_text(script, encoding="utf-8")
        made = subprocess.run([sys.executable, str(tmp_path / "made.py")], check=True, capture_output=True).stdout
        shown = call(
            page, "tensor/generate.js", "given[0].flatMap((r) => [...m.generate(r, given[1])])", [recipes, desc]
        )
        assert made == bytes(shown)


def test_numbers_are_laid_out_with_strides_and_in_nibbles(page):
    desc = {"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [5, 1]}
    found = call(page, "tensor/numbers.js", "[...m.readNumbers('[[1,2,3],[4,5,6]]', given)]", desc)
    assert np.frombuffer(bytes(found), np.float32).tolist() == [1, 2, 3, 0, 0, 4, 5, 6]
    found = call(
        page, "tensor/numbers.js", "[...m.readNumbers('[1,2,3,-4,5]', given)]", {"DataType": "INT4", "Sizes": [5]}
    )
    assert bytes(found) == bytes([0x21, 0xC3, 0x05])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "need 6"),
        ("[[1,2],[3,4],[5,6]]", "shape [3,2]"),
        ("[1,2,3,4,5,x]", "not a valid value"),
        ("[1,2,3,4,5,'']", "expected a value"),
    ],
)
def test_invalid_numbers_are_refused(page, text, said):
    desc = {"DataType": "FLOAT32", "Sizes": [2, 3]}
    message = call(
        page,
        "tensor/numbers.js",
        "(() => { try { m.readNumbers(given[0], given[1]); return ''; } catch (e) { return e.message; } })()",
        [text, desc],
    )
    assert said in message


def test_a_file_that_does_not_match_the_desc_can_change_it(tabs, console_url, tmp_path):
    array = np.arange(8, dtype=np.float16).reshape(2, 4)
    np.save(tmp_path / "input.npy", array)
    page = tabs.open(link(console_url, text=json.dumps(REDUCE, indent=1), inputs=NUMBERS))
    page.get_by_role("radio", name="file .npy/.bin").check()
    page.get_by_label("file", exact=True).set_input_files(tmp_path / "input.npy")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("has FLOAT16 [2, 4]; the desc says FLOAT32 [2, 3]")
    page.get_by_role("button", name="Use its FLOAT16 [2, 4]").click()
    expect(page.locator(".cm-content")).to_contain_text("FLOAT16")
    run(page)
    assert numbers_of(page) == ["6", "22"]
    with page.expect_download() as download:
        page.get_by_role("button", name="save .npy").click()
    saved = np.load(download.value.path())
    assert (saved.dtype, saved.tolist()) == (np.float16, [[6], [22]])
    np.save(tmp_path / "backend.npy", np.array([[6], [22.02]], np.float16))
    page.get_by_role("button", name="compare").click()
    page.get_by_label("Expected OutputTensor").set_input_files(tmp_path / "backend.npy")
    expect(page.get_by_text("equal bits 1 of 2")).to_be_visible()
    expect(page.locator(".compare dl")).to_contain_text("[1, 0]")
    expect(page.get_by_role("img", name="Heat map of errors of OutputTensor in ULP")).to_be_visible()
    distance = np.diff(np.array([22, 22.02], np.float16).view(np.int16))[0]
    expect(page.locator(".worst tbody :is(th, td)")).to_have_text(["[1, 0]", "22", "22.02", str(distance), "0.015625"])
    page.get_by_role("button", name="absolute difference").click()
    expect(page.get_by_role("img", name="Heat map of the difference of OutputTensor")).to_be_visible()


def test_nan_and_infinity_are_shown(tabs, console_url):
    inputs = {"InputTensor": {"kind": "numbers", "text": '[["NaN", 1, 2], ["Infinity", 0, -0]]'}}
    page = tabs.open(
        link(console_url, text=json.dumps({**REDUCE, "desc": {**REDUCE["desc"], "Axes": []}}), inputs=inputs)
    )
    run(page)
    assert numbers_of(page) == ["NaN", "1", "2", "Infinity", "0", "-0"]
    statistics = page.locator(".output dl.statistics")
    expect(statistics).to_contain_text("NaN1")
    expect(statistics).to_contain_text("+inf1")
    for view in ("heat map", "image", "histogram"):
        page.get_by_role("button", name=view).click()
        expect(page.locator(".output figure [role=img]")).to_be_visible()


COUNTED = """window.bytes = 0; window.pixels = 0;
    for (const { prototype } of [Blob, Response]) for (const name of ['arrayBuffer', 'bytes', 'text', 'json']) {
        const read = prototype[name];
        if (read) prototype[name] = async function () {
            const found = await read.call(this);
            window.bytes += found.byteLength ?? found.length ?? 0;
            return found; };
    }
    const drawn = CanvasRenderingContext2D.prototype.putImageData;
    CanvasRenderingContext2D.prototype.putImageData = function (image, ...rest) {
        window.pixels = Math.max(window.pixels, image.width * image.height);
        return drawn.call(this, image, ...rest); };"""
"""Counts the bytes of bodies that the main thread reads, and the most pixels it draws at once."""


def test_tensors_are_read_only_by_the_worker(tabs, console_url):
    """Whatever the tensor's size, the main thread only reads the JSON of responses and draws finished pixels."""
    desc = {"Function": "MAX", "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 3, 1024, 1024]}, "Axes": []}
    page = tabs.open(link(console_url, text=json.dumps({"type": "REDUCE", "desc": desc})), before=COUNTED)
    expect(page.get_by_text("valid from")).to_be_visible()
    page.evaluate("window.bytes = 0")
    run(page)
    expect(page.locator(".output dl.statistics")).to_contain_text("3,145,728")
    for view, name in (("heat map", "Heat map"), ("image", "Image"), ("histogram", "Histogram")):
        page.get_by_role("button", name=view).click()
        expect(page.get_by_role("img", name=re.compile(f"^{name} of OutputTensor"))).to_be_visible()
    assert 0 < page.evaluate("window.bytes") < 10_000
    assert page.evaluate("window.pixels") == 512 * 512


def png(rows: list[list[tuple[int, int, int]]]) -> bytes:
    """Encodes an RGB picture as PNG, with 8 bits per channel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    data = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    chunks = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_a_picture_is_read_as_a_tensor(tabs, console_url, tmp_path):
    rows = [[(255, 0, 10), (0, 255, 20)], [(1, 2, 3), (4, 5, 6)]]
    (tmp_path / "picture.png").write_bytes(png(rows))
    desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 3, 2, 2]}}
    page = tabs.open(link(console_url, text=json.dumps({"type": "ELEMENT_WISE_IDENTITY", "desc": desc})))
    expect(page.get_by_text("valid from")).to_be_visible()
    page.get_by_role("radio", name="image").check()
    page.locator("fieldset input[type=file]").set_input_files(tmp_path / "picture.png")
    run(page)
    assert numbers_of(page) == ["255", "0", "1", "4"]
    page.get_by_label("index 1").fill("2")
    expect(page.locator("table.numbers td").nth(1)).to_have_text("10")
    assert numbers_of(page) == ["10", "20", "3", "6"]


@pytest.mark.thorough
def test_64_mb_do_not_block_the_page(tabs, console_url):
    desc = {"Function": "MAX", "InputTensor": {"DataType": "FLOAT32", "Sizes": [4096, 4096]}, "Axes": []}
    watch = """window.tasks = []; new PerformanceObserver((list) => {
        window.tasks.push(...list.getEntries().map((entry) => entry.duration)); }).observe({ type: "longtask" });"""
    page = tabs.open(link(console_url, text=json.dumps({"type": "REDUCE", "desc": desc})), before=watch)
    expect(page.get_by_text("valid from")).to_be_visible()
    page.wait_for_timeout(500)
    page.evaluate("window.tasks.length = 0")
    run(page)
    expect(page.locator(".output dl.statistics")).to_contain_text("16,777,216", timeout=60_000)
    page.get_by_role("button", name="heat map").click()
    expect(page.get_by_text("mean of blocks at 512 by 512").first).to_be_visible(timeout=60_000)
    assert max(page.evaluate("window.tasks"), default=0) < 200
