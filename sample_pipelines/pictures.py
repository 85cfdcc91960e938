"""Seeded pictures with the statistics of photographs: energy falling with spatial frequency, edges, shading, grain.

Decoding time depends on such content: a flat image or white noise would decode several times faster or slower than a photograph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def cloud(rng: np.random.Generator, size: int, falloff: float = 1.2) -> Floats:
    """Return a periodic [size, size] field with mean 0 and variance 1 whose amplitude falls as 1 / frequency ** `falloff`.

    Amplitudes of natural images fall about as 1 / frequency (D. J. Field, J. Opt. Soc. Am. A 4, 1987).
    """
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :])
    frequency[0, 0] = np.inf
    noise = np.fft.rfft2(rng.standard_normal((size, size)))
    field = np.fft.irfft2(noise / frequency**falloff, s=(size, size))
    normalised: Floats = (field / field.std()).astype(np.float32)
    return normalised


def photograph(rng: np.random.Generator, clouds: Floats, height: int, width: int) -> Pixels:
    """Return an RGB picture [height, width, 3]: objects with their own colour and texture before a textured background.

    `clouds` [3, size, size] are shared between pictures; each takes its own windows of them.
    """
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    picture = _patch(rng, clouds, height, width)
    for _ in range(int(rng.integers(2, 5))):
        centre_y, centre_x = rng.uniform(0, height), rng.uniform(0, width)
        radius_y, radius_x = rng.uniform(0.1, 0.4, size=2) * min(height, width)
        inside = ((y - centre_y) / radius_y) ** 2 + ((x - centre_x) / radius_x) ** 2 < 1
        picture[inside] = _patch(rng, clouds, height, width)[inside]
    slope_y, slope_x = rng.uniform(-0.3, 0.3, size=2)
    light = 1 + slope_y * (y / height - 0.5) + slope_x * (x / width - 0.5)
    pixels: Pixels = np.clip(picture * light[..., None], 0, 255).astype(np.uint8)
    return pixels


def _patch(rng: np.random.Generator, clouds: Floats, height: int, width: int) -> Floats:
    """Return a colour, with a window of the clouds shared by the channels (luminance) and one with its own tint."""
    top = int(rng.integers(clouds.shape[1] - height + 1))
    left = int(rng.integers(clouds.shape[2] - width + 1))
    window = clouds[:, top : top + height, left : left + width]
    luminance, tint = window[int(rng.integers(3))], window[int(rng.integers(3))]
    colour = rng.uniform(50, 200, size=3).astype(np.float32)
    weight = rng.uniform(-8, 8, size=3).astype(np.float32)
    contrast = np.float32(rng.uniform(20, 45))
    patch: Floats = colour + contrast * luminance[..., None] + weight * tint[..., None]
    return patch


def surface_with_defects(rng: np.random.Generator, clouds: Floats, size: int) -> tuple[Pixels, Pixels]:
    """Return a grey textured surface [size, size, 1] and the mask [size, size, 1] (0 or 1) of the blotches on it."""
    window_size = clouds.shape[1] - size + 1
    top, left, other_top, other_left = (int(value) for value in rng.integers(window_size, size=4))
    texture = clouds[0, top : top + size, left : left + size]
    shape = clouds[1, other_top : other_top + size, other_left : other_left + size]
    mask = shape > np.quantile(shape, rng.uniform(0.85, 0.99))
    grain = clouds[2, left : left + size, top : top + size]
    grey = rng.uniform(90, 160) + 25 * texture + 6 * grain + np.where(mask, rng.uniform(25, 60), 0)
    return np.clip(grey, 0, 255).astype(np.uint8)[..., None], mask.astype(np.uint8)[..., None]


def repeated(rng: np.random.Generator, make: Callable[[], bytes], count: int, alike: int) -> Iterator[bytes]:
    """Yield `count` pictures. One of `alike` is made; each comes once, and then they come again at random."""
    made: list[bytes] = []
    distinct = max(1, count // alike)
    for _ in range(count):
        if len(made) < distinct:
            made.append(make())
            yield made[-1]
        else:
            yield made[int(rng.integers(distinct))]
