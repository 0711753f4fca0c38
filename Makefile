# kloop: build, run, test, bench, lint. Everything else is a script under scripts/.
VERSION ?= v1.37.2+kloop.0.1
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    := $(shell date -u +%Y-%m-%dT%H:%M:%SZ)
API     := github.com/kloop-dev/kloop/server/http
LDFLAGS := -s -w -X '$(API).gitVersion=$(VERSION)' -X '$(API).gitCommit=$(COMMIT)' -X '$(API).buildDate=$(DATE)'

export CGO_ENABLED = 0

.PHONY: build run test bench lint oracle sim

build: bin/kloop bin/kubectl

.PHONY: bin/kloop bin/kubectl
bin/kloop:
	go build -trimpath -ldflags "$(LDFLAGS)" -o $@ .
bin/kubectl:
	go build -trimpath -ldflags "-s -w -X 'k8s.io/component-base/version.gitVersion=v1.37.2'" -o $@ ./cmd/kubectl

run: build
	scripts/run

test:
	scripts/test

lint:
	scripts/lint

oracle: build
	scripts/oracle

bench: build
	scripts/bench

# Many seeds of the proof of convergence; SEED is the first.
sim:
	scripts/sim $(SEEDS) $(SEED)
