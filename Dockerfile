# cbcl from this checkout, for amd64 and arm64; docs/serving.md has how to run it.
FROM python:3.13-slim AS build
# The compiler is for the kernel: without one, cbcl runs the same in numpy, slower.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/cbcl-*.whl)[mqtt,web]" \
    && useradd --uid 10001 --create-home cbcl \
    && install --directory --owner=cbcl --group=cbcl /data
ENV CBCL_HOME=/data/.cbcl
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8737
ENTRYPOINT ["cbcl"]
CMD ["teach", "things.cbcl", "--host", "0.0.0.0", "--port", "8737", "--no-browser"]
