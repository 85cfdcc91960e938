"""Fully connected and convolutional networks with the sizes of their papers."""

from __future__ import annotations

from collections.abc import Sequence

from wafer_model.errors import WaferModelError
from wafer_model.network import Layer, Network, conv2d, dense, in_block, normalization, pooling, softmax_loss, tensors


def fc_mnist(*, widths: Sequence[int] = (500, 300), classes: int = 10, pixels: int = 784) -> Network:
    """Return the fully connected MNIST example of the public tutorials: 784-500-300-10."""
    sizes = (pixels, *widths, classes)
    layers = [dense(f"fc{index + 1}", sizes[index], sizes[index + 1]) for index in range(len(sizes) - 1)]
    layers += in_block(f"fc{len(sizes) - 1}", softmax_loss("loss", classes))
    inputs = tensors(image=(pixels, "float"), label=(1, "integer"))
    return Network(name="fc_mnist", layers=tuple(layers), inputs=inputs)


def unet(
    *,
    height: int = 256,
    width: int = 256,
    channels: int = 1,
    classes: int = 2,
    features: int = 64,
    depth: int = 4,
    batch_norm: bool = False,
    conv_bias: bool = True,
) -> Network:
    """U-Net, Ronneberger et al. 2015, with "same" borders: `depth` halvings, two 3 x 3 convolutions per level."""
    if depth < 1 or height % 2**depth or width % 2**depth:
        raise WaferModelError(f"{depth} halvings do not divide an image of {height} x {width}")
    layers: list[Layer] = []

    def level(name: str, high: int, wide: int, inputs: int, outputs: int) -> None:
        for index, source in enumerate((inputs, outputs)):
            block = f"{name}.conv{index + 1}"
            layers.append(conv2d(block, height=high, width=wide, inputs=source, outputs=outputs, bias=conv_bias))
            if batch_norm:
                norm = normalization(f"{block}.norm", outputs, positions=high * wide, kind="batch_norm")
                layers.extend(in_block(block, norm))

    high, wide, source = height, width, channels
    for step in range(depth):
        outputs = features * 2**step
        level(f"down{step + 1}", high, wide, source, outputs)
        pool = pooling(f"down{step + 1}.pool", height=high, width=wide, channels=outputs)
        layers += in_block(f"down{step + 1}.conv2", pool)
        high, wide, source = high // 2, wide // 2, outputs
    level("bottom", high, wide, source, features * 2**depth)
    for step in reversed(range(depth)):
        outputs = features * 2**step
        name = f"up{step + 1}"
        transposed = f"{name}.transposed"
        sizes = {"height": high, "width": wide, "inputs": 2 * outputs, "outputs": outputs}
        layers.append(conv2d(transposed, kernel=2, stride=2, transposed=True, **sizes))
        high, wide = 2 * high, 2 * wide
        level(name, high, wide, 2 * outputs, outputs)
    layers.append(conv2d("classes", height=height, width=width, inputs=features, outputs=classes, kernel=1))
    layers += in_block("classes", softmax_loss("loss", classes, positions=height * width))
    inputs = tensors(image=(height * width * channels, "float"), mask=(height * width, "float"))
    return Network(name="unet", layers=tuple(layers), inputs=inputs)


RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, bottlenecks, first stride


def resnet50(*, image: int = 224, classes: int = 1000) -> Network:
    """ResNet-50, He et al. 2015, stride in the 3 x 3 convolution (the form of the public PyTorch checkpoint)."""
    if image < 32:
        raise WaferModelError(f"ResNet-50 halves its image five times: {image} pixels are too few")
    layers: list[Layer] = []

    def conv(name: str, size: int, inputs: int, outputs: int, kernel: int, stride: int) -> int:
        sizes = {"height": size, "width": size, "inputs": inputs, "outputs": outputs, "kernel": kernel, "stride": stride}
        out = -(-size // stride)
        norm = normalization(f"{name}.norm", outputs, positions=out * out, kind="batch_norm")
        layers.extend(in_block(name, conv2d(name, bias=False, transposed=False, **sizes), norm))
        return out

    size = conv("stem", image, 3, 64, 7, 2)
    layers += in_block("stem", pooling("stem.pool", height=size, width=size, channels=64))
    size, source = -(-size // 2), 64
    for stage, (wide, repeats, stride) in enumerate(RESNET50_STAGES, start=1):
        for repeat in range(repeats):
            name, step = f"stage{stage}.{repeat + 1}", stride if repeat == 0 else 1
            if repeat == 0:
                conv(f"{name}.shortcut", size, source, 4 * wide, 1, step)
            conv(f"{name}.reduce", size, source, wide, 1, 1)
            size = conv(f"{name}.middle", size, wide, wide, 3, step)
            conv(f"{name}.expand", size, wide, 4 * wide, 1, 1)
            source = 4 * wide
    mean = pooling("mean", height=size, width=size, channels=source, stride=size)
    layers += in_block("classes", mean, dense("classes", source, classes), softmax_loss("loss", classes))
    inputs = tensors(image=(image * image * 3, "float"), label=(1, "integer"))
    return Network(name="resnet50", layers=tuple(layers), inputs=inputs)
