# kloop: build, run, test, bench, lint. Everything else is a script under scripts/.
VERSION ?= v1.37.2+kloop.0.1
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    := $(shell date -u +%Y-%m-%dT%H:%M:%SZ)
API     := github.com/kloop-dev/kloop/server/http
LDFLAGS := -s -w -X '$(API).gitVersion=$(VERSION)' -X '$(API).gitCommit=$(COMMIT)' -X '$(API).buildDate=$(DATE)'

# What runs seldom is compiled without inlining, which makes the binary 1 MB smaller: libraries of files and formats, and kinds that
# a cluster has few objects of. Nothing that a request for a common object or a rule's evaluation passes through is here.
COLD := $(patsubst %,k8s.io/api/%/...,admission admissionregistration apidiscovery authentication autoscaling certificates flowcontrol imagepolicy \
	networking node policy rbac resource scheduling storage storagemigration) \
	$(patsubst %,k8s.io/%/...,apiextensions-apiserver apiserver/pkg/apis apiserver/pkg/features component-base cri-api client-go \
	dynamic-resource-allocation kube-aggregator kube-openapi metrics pod-security-admission apimachinery/pkg/util/managedfields \
	apimachinery/pkg/util/strategicpatch) \
	$(patsubst %,github.com/%/...,antlr4-go coreos go-openapi google/cel-go/checker google/cel-go/common/env google/cel-go/common/stdlib \
	google/cel-go/ext google/cel-go/parser google/gnostic-models google/nftables grpc-ecosystem prometheus vishvananda) \
	$(patsubst %,go.etcd.io/etcd/%/...,client server/v3/embed server/v3/etcdserver/api) \
	go.opentelemetry.io/... go.uber.org/zap/... go.yaml.in/... \
	$(patsubst %,github.com/kloop-dev/kloop/%/...,cli node \
	kinds/admissionregistration kinds/apiextensions kinds/autoscaling kinds/certificates kinds/dra kinds/flowcontrol kinds/networking kinds/policy kinds/storage)

export CGO_ENABLED = 0

.PHONY: build run test bench lint oracle sim

build: bin/kloop bin/kubectl

# The binary leaves out what makes the linker keep all methods of all types: grpc's trace pages, by its own tag, and
# go-cmp, by scripts/small. "go install" works without either and makes a binary that is 10 MB larger.
.PHONY: bin/kloop bin/kubectl bin/kloop.mod
bin/kloop: bin/kloop.mod
	go build -trimpath -tags grpcnotrace -modfile $< -ldflags "$(LDFLAGS)" $(patsubst %,-gcflags=%=-l,$(COLD)) -o $@ .
	for plugin in why gaps loops; do ln -sf kloop bin/kubectl-$$plugin; done
bin/kloop.mod:
	mkdir -p bin
	(cat go.mod; echo 'replace github.com/google/go-cmp => ./scripts/small') > $@
	cp go.sum bin/kloop.sum
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
