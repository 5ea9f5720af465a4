"""Exports networks of torchvision, timm and transformers, with random weights, as ONNX files.

``python -P tests/onnx_models/exported.py FOLDER``; needs torch, torchvision, timm, transformers and onnx, in an
environment of their own. Files that are there are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _exports() -> dict[str, Callable[[Path], None]]:
    """Returns what exports each network."""
    return {
        "resnet18": lambda path: _image(_torchvision("resnet18"), path),
        "resnet50_torch": lambda path: _image(_torchvision("resnet50"), path),
        "mobilenet_v3": lambda path: _image(_torchvision("mobilenet_v3_small"), path),
        "efficientnet": lambda path: _image(_torchvision("efficientnet_b0"), path),
        "convnext": lambda path: _image(_timm("convnext_atto"), path),
        "vit": lambda path: _image(_timm("vit_tiny_patch16_224"), path),
        "swin": lambda path: _image(_timm("swin_tiny_patch4_window7_224"), path),
        "deeplab_v3": lambda path: _image(_segmentation(), path),
        "mask_rcnn_backbone": lambda path: _image(_backbone(), path),
        "bert": lambda path: _text("BertModel", "BertConfig", path, num_hidden_layers=4, hidden_size=256),
        "gpt2": lambda path: _text("GPT2Model", "GPT2Config", path, n_layer=4, n_embd=256, n_head=4),
        "whisper_encoder": _whisper,
        "lstm_tagger": _tagger,
    }


def _torchvision(name: str) -> Any:
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


def _timm(name: str) -> Any:
    import timm

    return timm.create_model(name, pretrained=False, exportable=True)


def _segmentation() -> Any:
    import torch
    import torchvision

    class Segmentation(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            make = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large
            self.network = make(weights=None, weights_backbone=None)

        def forward(self, x: Any) -> Any:
            return self.network(x)["out"]

    return Segmentation()


def _backbone() -> Any:
    import torch
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    class Backbone(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = resnet_fpn_backbone(backbone_name="resnet18", weights=None)

        def forward(self, x: Any) -> Any:
            return tuple(self.network(x).values())

    return Backbone()


def _image(network: Any, path: Path) -> None:
    import torch

    _export(network, (torch.zeros(1, 3, 224, 224),), ["x"], path)


def _text(model: str, config: str, path: Path, **sizes: int) -> None:
    import torch
    import transformers

    heads = {} if "n_head" in sizes else {"num_attention_heads": 4, "intermediate_size": 1024}
    made = getattr(transformers, config)(**sizes, **heads, attn_implementation="eager", use_cache=False)
    network = getattr(transformers, model)(made)

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, ids: Any) -> Any:
            return self.network(input_ids=ids).last_hidden_state

    _export(Plain(), (torch.ones(1, 64, dtype=torch.int64),), ["ids"], path)


def _whisper(path: Path) -> None:
    import torch
    import transformers

    made = transformers.WhisperConfig(encoder_layers=4, attn_implementation="eager")
    encoder = transformers.WhisperModel(made).encoder

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, features: Any) -> Any:
            return self.encoder(features).last_hidden_state

    _export(Plain(), (torch.zeros(1, made.num_mel_bins, 3000),), ["features"], path)


def _tagger(path: Path) -> None:
    import torch

    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(1000, 64)
            self.lstm = torch.nn.LSTM(64, 64, num_layers=2, bidirectional=True, batch_first=True)
            self.tags = torch.nn.Linear(128, 17)

        def forward(self, ids: Any) -> Any:
            return self.tags(self.lstm(self.embedding(ids))[0]).log_softmax(-1)

    _export(Tagger(), (torch.ones(2, 40, dtype=torch.int64),), ["ids"], path)


def _export(network: Any, inputs: tuple[Any, ...], names: list[str], path: Path) -> None:
    import torch

    torch.manual_seed(0)
    network.eval()
    try:
        torch.onnx.export(network, inputs, str(path), input_names=names, opset_version=17, dynamo=False)
    except torch.onnx.errors.UnsupportedOperatorError:  # of the older exporter
        torch.onnx.export(network, inputs, str(path), input_names=names, opset_version=18, external_data=False)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, export in _exports().items():
        path = folder / f"{name}.onnx"
        if not path.exists():
            export(path)
            sys.stdout.write(f"{name} {path.stat().st_size >> 20} MiB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
