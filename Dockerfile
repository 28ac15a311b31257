# One image for every service: docker build --build-arg SERVICE=agent .
#
# All binaries are built in one step, so that building a second image costs a copy.
# They are static and the same from the same commit (services/build.sh), and so is the layer that they are in: each comes with the
# directories that lead to it, all of one time.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
# What is long to compile and seldom changes is a layer of its own.
RUN go mod download
COPY services/build.sh services/
RUN services/build.sh go.etcd.io/etcd/server/v3/embed go.etcd.io/etcd/server/v3/etcdserver/api/v3client \
    google.golang.org/grpc google.golang.org/grpc/health google.golang.org/grpc/reflection github.com/prometheus/client_golang/prometheus/promhttp github.com/spf13/cobra \
    github.com/klauspost/reedsolomon lukechampine.com/blake3 sigs.k8s.io/yaml golang.org/x/net/http2
COPY internal internal
COPY sdk sdk
COPY services services
ARG VERSION=dev
RUN services/build.sh -o /out/ ./services/... \
    && mv /out/groupcast /out/groupcast-cli \
    && for program in /out/*; do install -D "$program" "/image/${program#/out/groupcast-}/usr/local/bin/groupcast" || exit 1; done \
    && find /image -exec touch --date=@0 {} +

FROM gcr.io/distroless/static-debian12:nonroot
ARG SERVICE
COPY --from=build /image/${SERVICE} /
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/local/bin/groupcast"]
