"""Computes the class map of a segmentation network's logits: ARGMAX along the classes.

The logits follow a formula: class 0 is the background with a logit of 0.35 everywhere; class c > 0 is a blob
exp(-((y - cy)^2 + (x - cx)^2) / r^2) around cy = 32 + 24 sin(c), cx = 32 + 24 cos(2c) with radius r = 5 + c mod 4.

Usage: python examples/segmentation.py [URL]    URL is the server's, http://127.0.0.1:8000 by default.
"""

import sys

import numpy as np

from opwire import Client

CLASSES, HEIGHT, WIDTH = 21, 64, 64
LETTERS = ".ABCDEFGHIJKLMNOPQRST"


def make_logits() -> np.ndarray:
    """Returns FLOAT32 logits of shape [1, 21, 64, 64]: batch, class, row, column."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    logits = np.empty((1, CLASSES, HEIGHT, WIDTH), np.float32)
    logits[0, 0] = 0.35
    for c in range(1, CLASSES):
        center_y, center_x, radius = 32 + 24 * np.sin(c), 32 + 24 * np.cos(2 * c), 5 + c % 4
        logits[0, c] = np.exp(-((y - center_y) ** 2 + (x - center_x) ** 2) / radius**2)
    return logits


def draw(class_map: np.ndarray) -> None:
    """Prints every second row, because characters are about twice as tall as wide."""
    for row in class_map[::2]:
        print("".join(LETTERS[c] for c in row))


def main() -> int:
    logits = make_logits()
    with Client(sys.argv[1] if len(sys.argv) > 1 else None) as client:
        result = client.argmax(logits, axes=[1])
    class_map = result.output[0, 0]
    draw(class_map)
    classes, counts = np.unique(class_map, return_counts=True)
    print(", ".join(f"{LETTERS[c]} {count}" for c, count in zip(classes, counts, strict=True)))
    print(f"{logits.nbytes} bytes of logits to {result.output.nbytes} bytes of classes on {result.device}")
    if not np.array_equal(class_map, np.argmax(logits[0], axis=0)):
        print("wrong result: the classes differ from NumPy's", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
