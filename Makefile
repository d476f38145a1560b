# What a developer types. CI does the same by .ci/run, without make.

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(shell command -v golangci-lint || echo $(shell go env GOPATH)/bin/golangci-lint)
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build man completions reference surface rules release module test race lint ci sandbox fuzz bench

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build both commands, static, into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/worker ./cmd/enqueue

man: ## Write the manual pages into bin/man
	bash .ci/manual man

completions: ## Write the completions of bash, zsh and fish into bin/completions
	bash .ci/manual completions

reference: ## Write the generated parts of docs/reference
	go generate ./internal/reference

surface: ## Write what users see of the fixed world into testdata/surface
	go generate ./internal/surface

rules: ## Print the alert rules; RUNBOOK=https://HOST/PATH/ makes links of their runbook pages
	@sed 's#runbook_url: #&$(RUNBOOK)#' deploy/prometheus/orgops.rules.yaml

release: ## Make a release in dist/; publish nothing
	bash .ci/release

module: ## Give a fork its module path: make module MODULE=github.com/acme/orgops
	bash .ci/module $(MODULE)

test: ## Run all tests; nothing but Go is needed
	go test ./...
	go test -C bench ./...

race: ## Run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./...

lint: $(GOLANGCI_LINT) ## Check style and the dependency rule
	$(GOLANGCI_LINT) run ./...

$(GOLANGCI_LINT):
	go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

ci: ## Do all that CI does
	bash .ci/run

sandbox: ## Start a worker with everything embedded, and the operator's pages
	go run ./cmd/worker --sandbox

fuzz: ## Fuzz every parser, FUZZTIME each (default 30s)
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; \
		done; \
	done

bench: ## Measure against plain loops (needs redis-server)
	go run -C bench .
