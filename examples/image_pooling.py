"""Max pooling of a photograph, with the positions of the maxima: MAX_POOLING2, 3x3 windows, stride 2.

The photograph, 512 x 512 bytes, is part of the package PyWavelets: pip install PyWavelets

Usage: python examples/image_pooling.py [URL]    URL is the server's, http://127.0.0.1:8000 by default.
"""

import sys

import numpy as np
import pywt

from opwire import Client

SHADES = " .:-=+*#%@"


def pool(client: Client, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pooled image and, for each of its pixels, the index of its source in the flattened image."""
    result = client.max_pooling(
        image[None, None], [3, 3], strides=[2, 2], start_padding=[1, 1], indices=True, operator="MAX_POOLING2"
    )
    return result.output[0, 0], result.indices[0, 0]


def expected(image: np.ndarray) -> np.ndarray:
    """Computes the same with NumPy. Padding never wins, so it can be the minimum value."""
    padded = np.pad(image, [(1, 0), (1, 0)])
    maxima: np.ndarray = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))[::2, ::2].max(axis=(2, 3))
    return maxima


def draw(image: np.ndarray) -> None:
    """Prints every second row, because characters are about twice as tall as wide."""
    for row in image[::2].astype(int) * len(SHADES) // 256:
        print("".join(SHADES[shade] for shade in row))


def main() -> int:
    image = levels = np.ascontiguousarray(pywt.data.camera(), np.uint8)
    with Client(sys.argv[1] if len(sys.argv) > 1 else None) as client:
        while levels.shape[1] > 64:
            source, (levels, positions) = levels, pool(client, levels)
            if not np.array_equal(levels, expected(source)) or not np.array_equal(levels, source.flat[positions]):
                print("wrong result: the maxima or their indices differ from NumPy's", file=sys.stderr)
                return 1
            kept, wins = np.unique(positions, return_counts=True)
            shapes = f"{source.shape[0]}x{source.shape[1]} to {levels.shape[0]}x{levels.shape[1]}"
            print(f"{shapes}: {kept.size} of {source.size} pixels are maxima, one of them of {wins.max()} windows")
    draw(levels)
    print(f"the brightest of {image.shape[0]}x{image.shape[1]} pixels, {image.max()}, survived as {levels.max()}")
    return 0 if levels.max() == image.max() else 1


if __name__ == "__main__":
    sys.exit(main())
