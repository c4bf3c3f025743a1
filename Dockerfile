# The service without torch: docker build -t diptych .  Only /data, /originals (and /tmp) are ever written.
FROM python:3.12-slim AS build
ARG EXTRA=cpu
WORKDIR /source
# For the kernel of the attention; without a compiler the wheel is built without it.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY model model
COPY training training
COPY export export
COPY service service
# What the wheel needs comes from the lock file, by digest.
RUN python -m venv /opt/diptych \
 && /opt/diptych/bin/pip install --no-cache-dir --require-hashes --requirement "service/requirements-${EXTRA}.txt" \
 && pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && /opt/diptych/bin/pip install --no-cache-dir --no-deps /wheels/diptych-*.whl \
 && /opt/diptych/bin/pip check

FROM python:3.12-slim
RUN groupadd --gid 10001 diptych \
 && useradd --uid 10001 --gid diptych --no-create-home --shell /usr/sbin/nologin diptych \
 && install --directory --owner=diptych --group=diptych /data /originals
COPY --from=build /opt/diptych /opt/diptych
ENV PATH=/opt/diptych/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["diptych", "serve", "--store", "/data/store", "--create", "--host", "0.0.0.0"]
