# The image holds only the command, the root certificates and a user: no shell, no packages.
# docs/DEPLOY.md says how to run it.
FROM golang:1.26.11-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What `feedfilter version` says: there is no repository here to ask.
ARG VERSION=
ARG COMMIT=
ARG DATE=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w -X main.linkedVersion=${VERSION:-} -X main.linkedCommit=${COMMIT:-} -X main.linkedDate=${DATE:-}" -o /out/usr/bin/feedfilter ./cmd/feedfilter
RUN mkdir -p /out/etc/ssl/certs /data \
    && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
    && echo 'feedfilter:x:65532:65532::/data:/sbin/nologin' >/out/etc/passwd \
    && echo 'feedfilter:x:65532:' >/out/etc/group

FROM scratch
COPY --from=build /out/ /
# It belongs to the user, and so does a new volume there.
COPY --from=build --chown=65532:65532 /data/ /data/
USER 65532:65532
WORKDIR /data
VOLUME /data
# feedfilter serves an address that others can reach only with FEEDFILTER_INSECURE_NO_AUTH=true.
# The person who runs the image decides on that.
ENV FEEDFILTER_DATA_DIR=/data FEEDFILTER_ADDR=0.0.0.0:8080
EXPOSE 8080
STOPSIGNAL SIGTERM
# It asks the first address of FEEDFILTER_ADDR, or that of FEEDFILTER_SERVER.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/feedfilter", "health"]
ENTRYPOINT ["/usr/bin/feedfilter"]
CMD ["serve"]
