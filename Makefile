# Everything a developer does, each a few lines. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash -o pipefail
export GOBIN := $(CURDIR)/.bin
export PATH := $(GOBIN):$(PATH)
# That of the programs, which the chart has as the tag of their images. A build in between has a name of its own: VERSION=$(git describe --always --dirty)
VERSION ?= $(shell sed -n 's/^appVersion: //p' charts/groupcast/Chart.yaml)

# What is made of other files is as it is kept, or in what it differs; and all of it is kept.
unchanged = git diff --exit-code -- $(1) && test -z "$$(git ls-files --others --exclude-standard -- $(1) | tee /dev/stderr)"

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## every binary into bin/
	VERSION=$(VERSION) services/build.sh -o bin/ ./services/...

PREFIX ?= /usr/local
install: ## what was built, and units for systemd, below PREFIX=/usr/local or /usr, and configuration that is not there yet in /etc/groupcast; all below DESTDIR, if given
	@case '$(PREFIX)' in /usr|/usr/local) ;; *) echo 'PREFIX is $(PREFIX): systemd looks for units and their programs below /usr and /usr/local alone' >&2; exit 1; esac
	install -D -t $(DESTDIR)$(PREFIX)/bin bin/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system systemd/*.service
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system/groupcast-.service.d systemd/groupcast-.service.d/*
	install -D -m 644 systemd/groupcast.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/groupcast.conf
	install -D -m 644 systemd/groupcast.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/groupcast.conf
	for file in systemd/*.yaml; do to=$(DESTDIR)/etc/groupcast/$${file#*/}; [ -e $$to ] || install -D -m 644 $$file $$to || exit 1; done

run: build ## start a standalone server and show the main job at work
	go run ./e2e/demo bin

# What measures time in emulated networks runs after all else. Two packages run at a time, the longest first, which mostly waits; but for
# a test of 500 handshakes at once, which has the machine to itself.
MEASURING := $(addprefix ./e2e/,$(addsuffix /...,gather faults replicas versions datagrams fleet lab peers papers))
ALONE := TestC64BuffersOfACrowd

# What tests run as programs is built once for all of them, and named by what it contains, so that go's cache of results knows
# them: what passed is not run again while tests and programs are the same, and the kernel and what it permits. GOTESTFLAGS=-count=1 runs all.
PROGRAMS = GROUPCAST_PROGRAMS=$$(go run ./e2e/programs out/programs) || exit 1; export GROUPCAST_PROGRAMS; \
	export GROUPCAST_LAB="$$(uname -r) $$(id -u) $$(ls -l /dev/net/tun 2>&1)";

# Most tests wait for something: more run at once than there are processors. What fails keeps nothing else from being run.
test: ## all that needs no cluster, network or tool installed by hand
	$(PROGRAMS) status=0; \
	go test -timeout 30m -p 3 -parallel 6 $(GOTESTFLAGS) $$(go list ./... | grep -vE '/e2e/(lab|fleet|faults|datagrams|gather|replicas|versions|envoy|papers|peers|builds|licences)') || status=1; \
	go test -timeout 30m -p 2 $(GOTESTFLAGS) -skip '^$(ALONE)$$' $(MEASURING) || status=1; \
	go test -timeout 30m $(GOTESTFLAGS) -run '^$(ALONE)$$' ./e2e/gather || status=1; \
	exit $$status

race: ## the tests under the race detector
	go test -race -timeout 30m ./internal/... ./sdk/... ./services/... ./e2e/cli/...

check: tools ## formatting, lint, vet, tidy, generated code, licences, the same bits from the same sources
	golangci-lint run --build-tags cluster ./...
	buf lint
	buf format --path proto/groupcast --diff --exit-code
	go vet ./...
	go mod tidy -diff
	$(MAKE) generate && $(call unchanged,internal/gen docs/openapi.yaml)
	go test ./e2e/licences
	go test -count=1 ./e2e/builds

generate: tools ## rebuild what is generated from the contracts
	buf generate
	buf generate --template buf.gen.openapi.yaml

bench: ## Go benchmarks; figures go to docs/benchmarks.md by hand
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./services/manager/...
	go test -run '^$$' -bench 'Build|Change' -cpu 1 -timeout 30m ./internal/algo/tree
	TMPDIR=/dev/shm go test -run '^$$' -bench . -benchtime 3x -timeout 30m ./internal/link ./internal/object ./internal/digest
	CI=1 go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./e2e/gather

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for name in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$target/*_test.go | cut -d' ' -f2); do \
	    go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$target || exit 1; done; done

clean: ## remove what was built
	rm -rf bin out

include e2e/e2e.mk

# Tools, pinned, built from their Go modules into .bin/.
tools: .bin/golangci-lint-v2.15.0 .bin/buf-v1.72.0 .bin/protoc-gen-go-v1.36.12 .bin/protoc-gen-go-grpc-v1.6.2 .bin/protoc-gen-openapi-v0.7.1
.bin/golangci-lint-%: ; go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$* && touch $@
.bin/buf-%: ; go install github.com/bufbuild/buf/cmd/buf@$* && touch $@
.bin/protoc-gen-go-grpc-%: ; go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$* && touch $@
.bin/protoc-gen-go-%: ; go install google.golang.org/protobuf/cmd/protoc-gen-go@$* && touch $@
.bin/protoc-gen-openapi-%: ; go install github.com/google/gnostic/cmd/protoc-gen-openapi@$* && touch $@

.PHONY: help build install run test race check generate bench fuzz clean tools
