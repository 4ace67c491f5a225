# `make` lists the targets.

GO      ?= go
# Extra arguments for go test, as in: make test ARGS='-run TestPage -v'
ARGS    ?=
# Packages tested at once: one more than processors, because tests often wait for servers.
JOBS    ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Tests of a package at once, of those that say they may: two for each processor, because they wait.
PARALLEL ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
# Extra arguments for golangci-lint.
LINTARGS ?=
# Packages for `make race`.
PACKAGES ?= $(TESTED)
# How long `make fuzz` spends on each target.
FUZZTIME ?= 30s
# Arguments of `make peers`, as in: make peers PEERS='-duration 30s'
PEERS ?=
# Directory of the pictures of `make screens`.
SCREENS ?= screens
# The version that `feedfilter version` prints and that the files of `make dist` are named after.
VERSION ?= $(shell git describe --tags --dirty --match 'v[0-9]*' 2>/dev/null || \
	sed -n 's/^\#\# \[\([0-9.]*\)\].*/v\1/p' CHANGELOG.md | head -n 1)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
# Time of all files of `make dist`, in seconds of Unix time: that of the commit.
SOURCE_DATE_EPOCH ?= $(shell git show --no-patch --format=%ct 2>/dev/null || echo 0)
# Platforms of `make dist`.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# Database of `make vulncheck`, as in: make vulncheck VULNDB=https://vulndb.internal
VULNDB  ?=
# Flags of feedfilter serve for `make run`, as in: make run SERVE='--addr 127.0.0.1:9000'
SERVE   ?=

GOLANGCI_LINT_VERSION := 2.15.0
GOLANGCI_LINT := .bin/golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run the service from source, on 127.0.0.1:8080, with its data in ./feedfilter-data.
	$(GO) run ./cmd/feedfilter serve $(SERVE)

.PHONY: build
build: ## Build bin/feedfilter, static and reproducible.
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/feedfilter \
		-ldflags "-X main.linkedVersion=$(VERSION) -X main.linkedCommit=$(COMMIT)" ./cmd/feedfilter

# Tools of make dist.
NFPM_VERSION := 2.45.2
CYCLONEDX_VERSION := 1.10.0

.PHONY: dist
dist: dist-tools ## Make archives, packages, an image, SBOMs and checksums in dist/, reproducibly.
	@GO='$(GO)' VERSION='$(VERSION)' COMMIT='$(COMMIT)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' PLATFORMS='$(PLATFORMS)' \
		packaging/build dist

.PHONY: dist-tools
dist-tools:
	@[ -x .bin/nfpm-$(NFPM_VERSION) ] || { echo 'building nfpm $(NFPM_VERSION), once' && CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' \
		$(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@v$(NFPM_VERSION) && mv .bin/nfpm .bin/nfpm-$(NFPM_VERSION); }
	@[ -x .bin/cyclonedx-gomod-$(CYCLONEDX_VERSION) ] || { echo 'building cyclonedx-gomod $(CYCLONEDX_VERSION), once' && \
		CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v$(CYCLONEDX_VERSION) && \
		mv .bin/cyclonedx-gomod .bin/cyclonedx-gomod-$(CYCLONEDX_VERSION); }
	@ln -sf nfpm-$(NFPM_VERSION) .bin/nfpm && ln -sf cyclonedx-gomod-$(CYCLONEDX_VERSION) .bin/cyclonedx-gomod

.PHONY: dist-test
dist-test: deps-dist dist-tools ## Test the packages of make dist; as root, install, upgrade and remove one.
	$(GO) test -count 1 -timeout 25m -v -run '^TestLong' $(ARGS) ./packaging

# Long tests are called TestLong...: test and race skip them, test-long runs only them. Others have
# targets, too. test-clients and test-page need more than the servers. Most changes do not concern
# what test-more tests, which takes half as much processor time as test.
# The linter runs go vet's checks, so go test need not. Without tables for a debugger a test binary
# is linked in half of the time; they take as long to link as most of them to run. So `make test`
# keeps the binaries, 0.8 GB, and links only those whose code has changed. Two packages with the
# same last word in their paths would get the same file, and go test refuses that.
TESTFLAGS    := -vet=off -ldflags=-s
GOTEST       = scripts/in-memory $(GO) test $(TESTFLAGS)
GOTEST_TOOLS = scripts/in-memory $(GO) -C tools test $(TESTFLAGS)

# Packages of test-more, and tests of it within others. What only PostgreSQL has is tested by
# TestPostgresBouncer and the like. TestPostgres is the suite of ledgers, and stays in test.
SERVERS    := $(addprefix ./internal/,redistest pgtest servertest proxytest elasticachetest ratetest)
MORE       := ./internal/follow $(SERVERS)
MORE_TESTS := Documents|FollowOutages|Postgres[A-Z]
MORE_IN     = $$(grep -rlE --include='*_test.go' --exclude-dir=tools '^func Test($(MORE_TESTS))' . | xargs -n 1 dirname | sort -u)

AREAS  := ./client/typescript ./examples ./packaging
# Prints the directories of all packages but those of its argument, as in $(call NOT,./examples).
NOT     = $(GO) list -f '{{.Dir}}' ./... | sed 's,^$(CURDIR),.,' | grep -vxF $(1:%=-e %)
TESTED  = $$($(call NOT,$(AREAS)))
SHORT  := -skip '^Test(Long|PythonClient$$)'

.PHONY: test
# The compiler and most tests need little memory, and take some 6 % less time with the garbage
# collector at 400 %. test-long measures memory, so it leaves it alone.
test: deps-servers ## Run the tests on real servers, without those of the other targets test-....
	@GOGC=$${GOGC:-400} $(GOTEST) -p $(JOBS) -parallel $(PARALLEL) \
		-o .bin/tests/ -skip '^Test(Long|PythonClient$$|$(MORE_TESTS))' -timeout 15m $(ARGS) $$($(call NOT,$(AREAS) $(MORE)))
	@echo 'not run: make test-more (following a database, what only PostgreSQL has, commands of documents,' \
		'servers for tests), test-clients (Python, TypeScript, examples), test-page (operations page), test-long'

.PHONY: test-more
test-more: deps-servers ## Run the tests of following, of what only PostgreSQL has, of documents, and of servers for tests.
	@GOGC=$${GOGC:-400} $(GOTEST) -p $(JOBS) -parallel $(PARALLEL) $(SHORT) -timeout 15m $(ARGS) $(MORE)
	@GOGC=$${GOGC:-400} $(GOTEST) -p $(JOBS) -parallel $(PARALLEL) -run '^Test($(MORE_TESTS))' -timeout 15m $(ARGS) $(MORE_IN)

.PHONY: test-clients
test-clients: deps-clients deps-servers ## Run the tests of the clients for Python and TypeScript, and of the examples.
	$(GOTEST) -skip '^TestLong' -timeout 15m $(ARGS) ./client/typescript ./examples
	$(GOTEST) -run '^TestPythonClient$$' -timeout 15m $(ARGS) ./integration

.PHONY: test-page
test-page: deps-page deps-servers ## Run the tests of the operations page in Chromium, without those of test-long.
	$(GOTEST_TOOLS) -skip '^TestLong' -timeout 15m $(ARGS) ./opspage

# Packages for `make test-long`, beside the operations page. integration takes longest, so it starts
# first.
LONG      ?= ./integration $(LONG_REST)
LONG_REST  = $$(grep -rl --include='*_test.go' --exclude-dir=packaging --exclude-dir=tools --exclude-dir=integration \
	'^func TestLong' . | xargs -n 1 dirname | sort -u)

.PHONY: test-long
# With ARGS=-short a part of them, as in continuous integration. They choose at random, so -count 1:
# a result that Go has kept says nothing about other choices.
test-long: deps-page deps-servers ## Run the long tests: faults at every step, chaos, large numbers.
	$(GOTEST_TOOLS) -count 1 -run '^TestLong' -timeout 25m $(ARGS) ./opspage & tools=$$!; \
		$(GOTEST) -count 1 -run '^TestLong' -timeout 25m $(ARGS) $(LONG); status=$$?; wait $$tools && exit $$status

# SINCE is the commit that the tests to stress differ from. TESTS names tests instead, as in:
# make stress TESTS='internal/follow:TestFollowResync activity/ledger'
SINCE ?= HEAD
TESTS ?=

.PHONY: stress
stress: deps-servers ## Run the tests that changed since SINCE (HEAD) 20 times beside a load of 20.
	GO='$(GO)' SINCE='$(SINCE)' scripts/in-memory scripts/stress $(TESTS)

# The race detector does not watch SQLite: it is C translated to Go, and would take four times as
# long. The package has no generic code, of which the linker could take an unwatched copy.
UNWATCHED = -gcflags='modernc.org/sqlite/lib=-race=false'

# One processor: on two, Go 1.26 crashes in the race detector if goroutines of one synctest bubble
# read channels of timers at once (they share one context of the detector). The detector finds a
# race without parallel execution, but goroutines meet in fewer orders.

.PHONY: race
race: deps-servers ## Run the tests, without those of test-long, under the race detector; needs a C compiler.
	CGO_ENABLED=1 $(GOTEST) -count 1 -race -cpu 1 $(UNWATCHED) $(SHORT) -timeout 40m $(ARGS) $(PACKAGES)

.PHONY: bench
bench: deps-servers ## Run the benchmarks.
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(ARGS) ./...

.PHONY: peers
peers: deps-servers ## Compare with other ways to store activities (tools/peers); takes up to 15 minutes.
	cd tools/peers && $(GO) run . $(PEERS)

.PHONY: docs
docs: ## Generate docs/COMMAND.md and the expected --help of tests.
	UPDATE=1 $(GO) test -count=1 -timeout 5m -run '^TestCommandReference$$|^TestScripts$$/^(help|completion)$$' ./cmd/feedfilter

.PHONY: growth
growth: deps-servers ## Measure how cost grows (tools/peers): print tables, draw docs/growth-*.svg; takes 5 minutes.
	cd tools/peers && $(GO) run . -growth -activities 200000 -users 4000 -duration 1s -plot '$(CURDIR)/docs' $(PEERS)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s).
	GO='$(GO)' scripts/fuzz '$(FUZZTIME)'

# golangci-lint takes half of the time if it collects garbage seldom, within half of the memory that
# is free.
LINTMEMORY := $(shell awk '/^MemAvailable/ { printf "%dMiB", $$2 / 2048 }' /proc/meminfo 2>/dev/null || echo 4GiB)

.PHONY: lint
# golangci-lint runs go vet's checks too.
lint: export GOGC = 400
lint: export GOMEMLIMIT = $(LINTMEMORY)
lint: golangci-lint ## Check the formatting, golangci-lint and the prose.
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GOLANGCI_LINT) run $(LINTARGS) ./...
	cd tools && ../$(GOLANGCI_LINT) run $(LINTARGS) ./assemble ./opspage ./prose
	$(GO) -C tools list -deps ./... >/dev/null # go.mod and go.sum have what all of it needs
	$(GO) -C tools test ./prose
	$(GO) -C tools run ./prose

.PHONY: lint-containers
lint-containers: ## Check Dockerfile, compose.yaml and the Helm chart, without a Docker engine.
	GO='$(GO)' scripts/lint-containers

.PHONY: lint-monitoring
lint-monitoring: ## Check the Prometheus rules and the dashboard: syntax, names, and when alerts fire.
	GO='$(GO)' scripts/lint-monitoring

# Not part of test: it takes minutes. DRILL=FeedfilterDown drills one alert; UPDATE=1 writes the
# table in infra/monitoring/README.md.
.PHONY: drill
drill: deps-servers ## Provoke every alert on a real service, and follow docs/OPERATIONS.md until it ends.
	cd tools/monitoring && DRILL='$(or $(DRILL),all)' CI=true $(GO) test -count 1 -timeout 60m -v -run 'TestDrill/^$(DRILL)' .

# Not a file target: the version of the binary counts, not its date.
.PHONY: golangci-lint
golangci-lint:
	@if [ "$$($(GOLANGCI_LINT) version --short 2>/dev/null)" != '$(GOLANGCI_LINT_VERSION)' ]; then \
		echo 'building golangci-lint $(GOLANGCI_LINT_VERSION), once'; \
		CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install \
			github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_LINT_VERSION); \
	fi

# Tools of the schema. buf comes with npm: building it takes minutes. The plugins have the versions
# that go.mod requires.
BUF := $(CURDIR)/client/typescript/generate/node_modules/.bin/buf

.PHONY: proto
proto: proto-tools ## Check the schema of the gRPC API, and generate its code; needs npm.
	cd proto && $(BUF) lint && $(BUF) generate
	scripts/generate-python client/python/src

.PHONY: lint-proto
lint-proto: proto-tools ## Check the schema of the gRPC API, and that its generated code is up to date.
	@GO='$(GO)' scripts/lint-proto

.PHONY: typescript
typescript: proto-tools ## Generate the code of the TypeScript client from the schema and the OpenAPI document; needs npm.
	@GO='$(GO)' scripts/typescript client/typescript/src/gen

.PHONY: lint-typescript
lint-typescript: proto-tools ## Check the types of the TypeScript client, and that its generated code is up to date; needs npm.
	@GO='$(GO)' scripts/lint-typescript

.PHONY: lint-python
lint-python: proto-tools ## Check client/python: generated code, types and style.
	@scripts/lint-python

.PHONY: proto-tools
proto-tools:
	@scripts/npm-ci client/typescript/generate
	@CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install \
		google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go

.PHONY: terraform-docs
terraform-docs: ## Write the tables of inputs and outputs in infra/terraform/README.md.
	@scripts/terraform-docs

# Not part of lint: it requires terraform and its AWS provider.
.PHONY: lint-terraform
lint-terraform: ## Check infra/terraform: format, tflint, tfsec, validation and tests.
	@GO='$(GO)' scripts/lint-terraform

# Not part of lint: it requires the database.
.PHONY: vulncheck
vulncheck: ## Check the code and its dependencies against Go's vulnerability database, or VULNDB, a mirror.
	@GO='$(GO)' VULNDB='$(VULNDB)' scripts/vulncheck

.PHONY: deps
deps: ## Install the programs that tests and checks start; targets install what they need.
	@scripts/deps

deps-%: # an area of scripts/deps
	@scripts/deps $*

.PHONY: uplot
uplot: ## Fetch the operations page's chart library, in the version of scripts/uplot; needs npm.
	@scripts/uplot

.PHONY: swagger-ui
swagger-ui: ## Fetch the page of the API's description, in the version of scripts/swagger-ui; needs npm.
	@scripts/swagger-ui

.PHONY: screens
screens: deps-page deps-servers ## Take screenshots of the operations page in all states, into SCREENS (./screens).
	mkdir -p $(SCREENS)
	FEEDFILTER_SCREENSHOTS=$(abspath $(SCREENS)) $(GO) -C tools test -count 1 -timeout 10m -run 'Test(Long)?Page$$' ./opspage

.PHONY: clean
clean: ## Remove build results, tools and cached test results.
	rm -rf bin dist .bin
	$(GO) clean -testcache
