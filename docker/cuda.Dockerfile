# The server for NVIDIA GPUs. From the root of the repository: docker build -f docker/cuda.Dockerfile -t opwire-cuda .
# The driver comes from the host (NVIDIA Container Toolkit); the image only has CUDA's compiler and libraries, from
# Python packages.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS wheel
COPY LICENSE README.md pyproject.toml /source/
COPY client /source/client
COPY service /source/service
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM ${BASE} AS installed
COPY --from=wheel /wheels /wheels
ARG CUPY=14.2.0
ARG CUDA=13.4
RUN python3 -m venv --without-pip /opt/opwire \
    && pip --python /opt/opwire/bin/python install --no-cache-dir --only-binary :all: \
        "opwire[service,onnx] @ file://$(ls /wheels/*.whl)" "cupy-cuda13x==${CUPY}" \
        "cuda-toolkit[nvrtc,cudart,cublas]==${CUDA}.*" \
    && find /opt/opwire -type d -name tests -prune -exec rm -r {} +
COPY docker/entrypoint docker/healthcheck.py /opt/opwire/

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="opwire-cuda" \
    org.opencontainers.image.description="DirectML operators over HTTP, on NVIDIA GPUs" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
RUN useradd --system --uid 10001 --user-group --no-create-home opwire \
    && install -d -o opwire -g opwire /var/cache/opwire
COPY --from=installed /opt/opwire /opt/opwire
# Kernels are compiled for the GPU on first use and cached in the volume.
ENV PATH=/opt/opwire/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    OPWIRE_KERNEL_CACHE=/var/cache/opwire/cuda \
    OPWIRE_HOST=0.0.0.0 \
    OPWIRE_PORT=8000 \
    OPWIRE_DEVICE=cuda
USER 10001:10001
WORKDIR /tmp
VOLUME /var/cache/opwire
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-IS", "/opt/opwire/healthcheck.py"]
ENTRYPOINT ["/opt/opwire/entrypoint"]
CMD ["serve"]
