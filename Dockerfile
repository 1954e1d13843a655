# A model as a service:
#   docker build -t purerec .
#   docker run -p 8000:8000 -v "$PWD/model:/model:ro" purerec
# Any other command follows the name of the image: docker run purerec models
FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir build
RUN python -m build --outdir /wheels

FROM python:3.11-slim
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/constraints.txt
RUN pip install --no-cache-dir -c /wheels/constraints.txt "purerec[serve] @ file://$(ls /wheels/*.whl)"
ENV PUREREC_CACHE=/tmp/purerec NUMBA_CACHE_DIR=/tmp/purerec/kernels
USER 1000
EXPOSE 8000
HEALTHCHECK CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz')"
ENTRYPOINT ["purerec"]
CMD ["serve", "/model", "--host", "0.0.0.0"]
