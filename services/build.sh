#!/bin/sh
# Builds what is given to others: static binaries, the same bits from the same commit wherever they are built. So they
# know the version that they are given, and nothing of a repository, which an image's build does not have.
# Arguments are those of go build, as: VERSION=v1.2.3 services/build.sh -o bin/ ./services/...
set -eu
export CGO_ENABLED=0
exec go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/groupcast/groupcast/internal/version.number=${VERSION:-dev}" "$@"
