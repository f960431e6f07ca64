# The built executable on a small Debian; the CPU plugin in it needs libstdc++ and glibc 2.27 or newer.
#
#   npm run build && docker build -t xlaserver .
#   docker run -p 8001:8001 -p 8002:8002 -v $PWD/bundles:/var/lib/xlaserver/models:ro xlaserver
#   docker run ... -v $PWD/node.yaml:/node.yaml:ro -e XLASERVER_NODE_FILE=/node.yaml xlaserver serve
FROM debian:12-slim

RUN apt-get update && apt-get install -y --no-install-recommends libstdc++6 && rm -rf /var/lib/apt/lists/* \
  && useradd --system --uid 10001 xlaserver \
  && install -d -o xlaserver /var/cache/xlaserver /var/lib/xlaserver/models

COPY dist/xlaserver /usr/local/bin/xlaserver
COPY dist/THIRD_PARTY_NOTICES LICENSE /usr/share/doc/xlaserver/

# Compiled executables, weights images and the unpacked plugin: kept between containers, a start takes a second.
ENV XLASERVER_CACHE_DIR=/var/cache/xlaserver XLASERVER_ENDPOINTS_HOST=0.0.0.0
VOLUME /var/cache/xlaserver

USER xlaserver
EXPOSE 8001 8002
# Give `docker stop` more time than drain_seconds: --stop-timeout 20.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=20s --start-period=300s CMD ["xlaserver", "ready"]

ENTRYPOINT ["xlaserver"]
CMD ["serve", "--model-repository", "/var/lib/xlaserver/models"]
