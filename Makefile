# The one way in: `make` lists what there is.

GO      ?= go
# Extra arguments for go test, as in: make test ARGS='-run TestPage -v'
ARGS    ?=
# Packages tested at once: one more than processors, because tests often wait for servers.
JOBS    ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Extra arguments for golangci-lint.
LINTARGS ?=
# What `make race` tests.
PACKAGES ?= ./...
# How long `make fuzz` spends on each target.
FUZZTIME ?= 30s
# What `make peers` passes to its program, as in: make peers PEERS='-duration 30s'
PEERS ?=
# Where `make screens` puts its pictures.
SCREENS ?= screens
# What `feedfilter version` prints, and the files of `make dist` are named after: the last tag, and what came after it.
VERSION ?= $(shell git describe --tags --dirty --match 'v[0-9]*' 2>/dev/null || echo v0.1.0)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
# Time of all files of `make dist`, in seconds since 1970: when the commit was made.
SOURCE_DATE_EPOCH ?= $(shell git show --no-patch --format=%ct 2>/dev/null || echo 0)
# What `make dist` builds for.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# Where `make vulncheck` looks, as in: make vulncheck VULNDB=https://vulndb.internal
VULNDB  ?=
# What `make run` passes to feedfilter serve, as in: make run SERVE='--addr 127.0.0.1:9000'
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

# The newest versions whose own dependencies the module proxy of any builder is likely to have.
NFPM_VERSION := 2.45.2
CYCLONEDX_VERSION := 1.10.0

.PHONY: dist
dist: dist-tools ## Make archives, packages, the image, an SBOM and checksums in dist/, for PLATFORMS, byte for byte reproducible.
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
dist-test: deps dist-tools ## Test what make dist makes: reproducible, installable, upgradable; as root, installs and removes a package.
	$(GO) test -count 1 -timeout 25m -v -run '^TestLong' $(ARGS) ./packaging

# A test that takes long is called TestLong...: test and race skip those, test-long runs no others.
.PHONY: test
# integration takes longest, so it begins first: the others run beside it.
test: deps ## Run the tests, without those of test-long.
	$(GO) test -p $(JOBS) -skip '^TestLong' -timeout 15m $(ARGS) ./integration ./...

.PHONY: test-long
test-long: deps ## Run the tests that take long: faults at every step, chaos, large numbers.
	@$(MAKE) --no-print-directory dist-tools || echo 'make test-long: going on without the tools of make dist' >&2
	$(GO) test -run '^TestLong' -timeout 25m $(ARGS) ./integration \
		$$(grep -rl --include='*_test.go' '^func TestLong' . | xargs -n 1 dirname | sort -u)

# SQLite is not watched: C that was translated to Go, which would take four times as long. The package
# has no generic code, of which the linker could take a copy that does not watch for others.
UNWATCHED = -gcflags='modernc.org/sqlite/lib=-race=false'

.PHONY: race
race: deps ## Run the tests under the race detector, which needs a C compiler; not those of test-long.
	CGO_ENABLED=1 $(GO) test -race $(UNWATCHED) -skip '^TestLong' -timeout 20m $(ARGS) $(PACKAGES)

.PHONY: bench
bench: deps ## Run the benchmarks.
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(ARGS) ./...

.PHONY: peers
peers: deps ## Compare with other ways of keeping activities (integration/peers), for a quarter of an hour.
	cd integration/peers && $(GO) run . $(PEERS)

.PHONY: docs
docs: ## Write docs/COMMAND.md, and what tests expect of --help, from the commands as they are.
	UPDATE=1 $(GO) test -count=1 -timeout 5m -run '^TestCommandReference$$|^TestScripts$$/^(help|completion)$$' ./cmd/feedfilter

.PHONY: growth
growth: deps ## Measure how cost grows (integration/peers): prints tables and draws docs/growth-*.svg, in some five minutes.
	cd integration/peers && $(GO) run . -growth -activities 200000 -users 4000 -duration 1s -plot '$(CURDIR)/docs' $(PEERS)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s).
	GO='$(GO)' scripts/fuzz '$(FUZZTIME)'

.PHONY: lint
lint: golangci-lint ## Check the formatting, go vet and golangci-lint.
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GOLANGCI_LINT) run $(LINTARGS) ./...

.PHONY: lint-containers
lint-containers: ## Check Dockerfile, compose.yaml and the Helm chart, as far as it goes without an engine.
	GO='$(GO)' scripts/lint-containers

.PHONY: lint-monitoring
lint-monitoring: ## Check the rules for Prometheus and the dashboard: syntax, names, and which alerts fire when.
	GO='$(GO)' scripts/lint-monitoring

# Not part of test: it takes minutes. DRILL=FeedfilterDown drills one alert; UPDATE=1 writes the table in docs/OPERATIONS.md.
.PHONY: drill
drill: deps ## Provoke every alert on a real service, and follow docs/OPERATIONS.md until it ends.
	cd infra/monitoring && DRILL='$(or $(DRILL),all)' CI=true $(GO) test -count 1 -timeout 60m -v -run 'TestDrill/^$(DRILL)' .

# Not a file target: what counts is the version of the binary, not its date.
.PHONY: golangci-lint
golangci-lint:
	@if [ "$$($(GOLANGCI_LINT) version --short 2>/dev/null)" != '$(GOLANGCI_LINT_VERSION)' ]; then \
		echo 'building golangci-lint $(GOLANGCI_LINT_VERSION), once'; \
		CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install \
			github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_LINT_VERSION); \
	fi

# Tools of the schema. The plugins have the versions that go.mod requires.
BUF_VERSION := 1.75.0

.PHONY: proto
proto: proto-tools ## Check the schema of the gRPC API, and generate its code.
	cd proto && ../.bin/buf lint && ../.bin/buf generate
	scripts/generate-python client/python/src

.PHONY: lint-proto
lint-proto: proto-tools ## Check the schema of the gRPC API, and that the code beside it is generated from it.
	@GO='$(GO)' scripts/lint-proto

.PHONY: typescript
typescript: proto-tools ## Generate the code of the TypeScript client from the schema and the OpenAPI document; needs npm.
	@GO='$(GO)' scripts/typescript client/typescript/src/gen

.PHONY: lint-typescript
lint-typescript: proto-tools ## Check the types of the TypeScript client, and that its code is generated; needs npm.
	@GO='$(GO)' scripts/lint-typescript

.PHONY: lint-python
lint-python: proto-tools ## Check client/python: generated code, types and style.
	@scripts/lint-python

.PHONY: proto-tools
proto-tools:
	@if [ "$$(.bin/buf --version 2>/dev/null)" != '$(BUF_VERSION)' ]; then \
		echo 'building buf $(BUF_VERSION), once'; \
		CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install github.com/bufbuild/buf/cmd/buf@v$(BUF_VERSION); \
	fi
	@CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install \
		google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go

# Not part of lint: it needs terraform and its AWS provider.
.PHONY: lint-terraform
lint-terraform: ## Check infra/terraform: format, tflint, tfsec, validation and tests.
	@GO='$(GO)' scripts/lint-terraform

# Not part of lint: it needs the database.
.PHONY: vulncheck
vulncheck: ## Look the code and its dependencies up in Go's database of vulnerabilities, or in VULNDB, a mirror.
	@GO='$(GO)' VULNDB='$(VULNDB)' scripts/vulncheck

.PHONY: deps
deps: ## Install what the tests start: redis-server, PostgreSQL, Chromium, and what runs the examples and client/python.
	@scripts/deps

.PHONY: uplot
uplot: ## Fetch the operations page's chart library anew, at the version in scripts/uplot; needs npm.
	@scripts/uplot

.PHONY: swagger-ui
swagger-ui: ## Fetch the page of the API's description anew, at the version in scripts/swagger-ui; needs npm.
	@scripts/swagger-ui

.PHONY: screens
screens: deps ## Take pictures of the operations page in all states, into SCREENS (./screens).
	mkdir -p $(SCREENS)
	FEEDFILTER_SCREENSHOTS=$(abspath $(SCREENS)) $(GO) test -count 1 -timeout 10m -run 'Test(Long)?Page$$' ./internal/opspage

.PHONY: clean
clean: ## Remove what was built, the tools and the cached test results too.
	rm -rf bin dist .bin
	$(GO) clean -testcache
