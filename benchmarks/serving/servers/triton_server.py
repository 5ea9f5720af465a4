"""Triton with one model instance on its Python backend; its programs come from the package nvidia-pytriton.

python triton_server.py PORT

It creates its model repository in the working folder.
"""

import os
import sys
import sysconfig
from pathlib import Path

import pytriton

CONFIG = """
name: "argmax"
backend: "python"
max_batch_size: 0
input [{ name: "x" data_type: TYPE_FP32 dims: [%(input)s] }]
output [{ name: "y" data_type: TYPE_UINT32 dims: [%(output)s] }]
instance_group [{ count: 1 kind: KIND_CPU }]
"""
RANKS = (2, 4)


def main(port: str) -> None:
    """Creates a model repository and replaces this process by Triton."""
    package = Path(pytriton.__file__).parent
    folder = Path.cwd()
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    shipped = package / "tritonserver"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = shipped / "python_backend_stubs" / python / "triton_python_backend_stub"
    for file in (*(shipped / "backends" / "python").glob("*.*"), stub):
        (backend / file.name).symlink_to(file)
    for rank in RANKS:
        model = folder / "models" / f"argmax{rank}"
        (model / "1").mkdir(parents=True)
        (model / "1" / "model.py").symlink_to(Path(__file__).with_name("triton_model.py").resolve())
        dims = {"input": ", ".join(["-1"] * rank), "output": ", ".join(["-1"] * (rank - 1))}
        (model / "config.pbtxt").write_text((CONFIG % dims).replace("argmax", model.name))
    libraries = [package.parent / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR")]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }
    options = {
        "model-repository": folder / "models",
        "backend-directory": folder / "backends",
        "http-address": "127.0.0.1",
        "http-port": port,
        "allow-grpc": "false",
        "log-verbose": "0",
    }
    program = shipped / "bin" / "tritonserver"
    os.execve(program, [program, *(f"--{name}={value}" for name, value in options.items())], environment)


if __name__ == "__main__":
    main(sys.argv[1])
