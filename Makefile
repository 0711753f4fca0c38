# kloop: build, run, test, check, bench, lint. Everything else is a script under scripts/.
RELEASE := $(shell sed -n 's/^const Release = "\(.*\)"/\1/p' features/release.go)

export CGO_ENABLED = 0
export GOFLAGS := $(GOFLAGS) $(shell scripts/goflags)
export PATH := $(PATH):/usr/local/go/bin # sudo takes it away

.PHONY: build run test check bench lint oracle sim

build: bin/kloop bin/kubectl

# "go install" makes the same program, 10 MB larger: this one leaves out what makes the linker keep all methods of all types, which is
# grpc's trace pages (their own tag) and the go-cmp that etcd has for tests (scripts/small stands for it), net/http's HTTP/2, which is not
# used (internal/h2 serves, client-go brings its own client), and the 1 MB that functions aligned to 32 bytes waste.
.PHONY: bin/kloop bin/kubectl bin/kloop.mod
bin/kloop: bin/kloop.mod
	go build -trimpath -tags grpcnotrace,nethttpomithttp2 -modfile $< -ldflags '-s -w -funcalign=1' -o $@ .
	for plugin in why gaps loops; do ln -sf kloop bin/kubectl-$$plugin; done
bin/kloop.mod:
	mkdir -p bin
	(cat go.mod; echo 'replace github.com/google/go-cmp => ./scripts/small') > $@
	cp go.sum bin/kloop.sum
bin/kubectl:
	cd cmd/kubectl && go build -trimpath -ldflags "-s -w -X 'k8s.io/component-base/version.gitVersion=v$(RELEASE)'" -o ../../$@ .

# What is missing is said before anything is compiled. A kubectl that is there is used; without one none is compiled for this.
run:
	@scripts/run check
	@scripts/compile bin/kloop
	@scripts/run

test:
	scripts/test

# What one runs all day: minutes, less with a warm cache.
check:
	scripts/test check

lint:
	scripts/lint

oracle: build
	scripts/oracle

bench: build
	scripts/bench

# Many seeds of the simulation; SEED is the first.
sim:
	scripts/sim $(SEEDS) $(SEED)

# Goes over to another Kubernetes: make bump RELEASE=1.38.0.
bump:
	scripts/bump $(RELEASE)
