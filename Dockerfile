# docker build -t heldout . ; docker run --rm -v "$PWD:/data" heldout check /data/bench.jsonl
FROM python:3.12-slim
COPY pyproject.toml setup.py constraints.txt README.md LICENSE /src/
COPY src /src/src
RUN python -m pip install --no-cache-dir -c /src/constraints.txt '/src[vision,text,review]' && rm -r /src \
    && useradd --create-home heldout
USER heldout
WORKDIR /data
ENTRYPOINT ["heldout"]
CMD ["--help"]
