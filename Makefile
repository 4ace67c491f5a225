# The one way in: `make` lists what there is.

GO      ?= go
# Extra arguments for go test, as in: make test ARGS='-run TestPage -v'
ARGS    ?=
# What `make race` tests.
PACKAGES ?= ./...
# How long `make fuzz` spends on each target.
FUZZTIME ?= 30s
# What `make run` passes to feedfilter serve, as in: make run SERVE='--addr 127.0.0.1:9000'
SERVE   ?=

GOLANGCI_LINT_VERSION := 2.15.0
GOLANGCI_LINT := .bin/golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run the service from source, on 127.0.0.1:8080, with its data in ./feedfilter-data.
	$(GO) run ./cmd/feedfilter serve $(SERVE)

.PHONY: build
build: ## Build bin/feedfilter, static and reproducible.
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/feedfilter ./cmd/feedfilter

.PHONY: test
test: deps ## Run the tests.
	$(GO) test -timeout 20m $(ARGS) ./...

.PHONY: race
race: deps ## Run the tests under the race detector, which needs a C compiler.
	CGO_ENABLED=1 $(GO) test -race -timeout 20m $(ARGS) $(PACKAGES)

.PHONY: bench
bench: deps ## Run the benchmarks.
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(ARGS) ./...

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s).
	GO='$(GO)' scripts/fuzz '$(FUZZTIME)'

.PHONY: lint
lint: golangci-lint ## Check the formatting, go vet and golangci-lint.
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GOLANGCI_LINT) run ./...

# Not a file target: what counts is the version of the binary, not its date.
.PHONY: golangci-lint
golangci-lint:
	@if [ "$$($(GOLANGCI_LINT) version --short 2>/dev/null)" != '$(GOLANGCI_LINT_VERSION)' ]; then \
		echo 'building golangci-lint $(GOLANGCI_LINT_VERSION), once'; \
		CGO_ENABLED=0 GOBIN='$(CURDIR)/.bin' $(GO) install \
			github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_LINT_VERSION); \
	fi

.PHONY: deps
deps: ## Install the servers that the tests start: redis-server and PostgreSQL.
	@scripts/deps

.PHONY: clean
clean: ## Remove what was built, the tools and the cached test results too.
	rm -rf bin .bin
	$(GO) clean -testcache
