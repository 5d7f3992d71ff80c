# docker build -t heldout . ; docker run --rm -v "$PWD:/data" heldout check /data/bench.jsonl
FROM python:3.12-slim
COPY pyproject.toml setup.py constraints.txt README.md LICENSE /src/
COPY .ci/install.py /src/.ci/
COPY src /src/src
RUN PIP_NO_CACHE_DIR=1 python -I /src/.ci/install.py vision,text,review && rm -r /src \
    && useradd --create-home heldout
USER heldout
WORKDIR /data
ENTRYPOINT ["heldout"]
CMD ["--help"]
