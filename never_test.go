package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A ban says that packages below who import nothing below what. The ladder orders floors; a ban draws a border across them.
type ban struct {
	who, what []string
	why       string
	except    map[string]string // "importer imported" to the reason; a folder stands for all below it
}

// loops are the packages that close a gap. They see the cluster through client and loop, and know API types.
var loops = []string{"controllers", "scheduler", "node", "proxy", "podnetwork", "netpolicy", "dns", "loadbalancer", "metrics", "converge",
	"web", "sim"}

// never lists the borders. Paths of this module are written without its name.
var never = []ban{{
	who:  loops,
	what: []string{"server", "store", "view", "apply", "crd", "auth", "openapi", "admission", "webhook", "trail", "cluster", "cli"},
	why:  "a loop knows client, loop and API types, so that it runs in the server's process and over HTTP alike",
	except: map[string]string{
		"controllers/apiservice crd":                "what discovery says of a custom kind follows from its definition",
		"controllers/apiservice webhook":            "dials a Service as everything that calls extension servers does",
		"controllers/bootstrapsigner auth/token":    "the signature that joining nodes check",
		"controllers/definition crd":                "whether a schema is structural and which names are free",
		"controllers/policystatus admission/policy": "type-checks the CEL of policies with the compiler that admission uses",
		"controllers/policystatus crd":              "the schemas of custom kinds that policies are checked against",
		"controllers/policystatus openapi":          "the schemas of built-in kinds that policies are checked against",
		"node/credential auth/pki":                  "makes the agent's keys and certificate requests",
		"node/credential auth/token":                "checks the signature of the cluster's CA with a join token",
		"scheduler trail":                           "what follows from a pod's binding",
	},
}, {
	who:  []string{"converge/words"},
	what: []string{"converge", "loop", "client", "k8s.io/api"},
	why:  "it knows texts and trees: what a cluster has beside them is for health and causes",
}, {
	who:    []string{"loop"},
	what:   []string{"server", "store", "view", "apply", "crd", "auth", "openapi", "admission", "webhook", "kinds"},
	why:    "the engine runs loops over any kind and any client",
	except: map[string]string{},
}, {
	who:  []string{"store"},
	what: []string{"resource", "kinds", "k8s.io/api"},
	why:  "the store knows keys and bytes, not kinds",
}, {
	who:  []string{"view"},
	what: []string{"kinds"},
	why:  "the watch cache holds every kind alike",
}, {
	who:    []string{""},
	what:   []string{"go.etcd.io/etcd/server", "go.etcd.io/etcd/client", "go.etcd.io/raft", "go.etcd.io/bbolt", "go.uber.org/zap"},
	why:    "etcd is behind the contract of package store",
	except: map[string]string{"store/etcd go.etcd.io": "implements it", "store/etcd go.uber.org/zap": "etcd's log"},
}, {
	who: []string{"cluster"},
	what: []string{"machine", "node", "proxy", "podnetwork", "netpolicy", "loadbalancer", "nft", "github.com/google/nftables",
		"github.com/vishvananda/netlink"},
	why:    "the control plane builds where no node can run, and links nothing of what a node needs: main hands it a cluster.Machine",
	except: map[string]string{"cluster node/pressure": "the words of eviction thresholds are checked when the server starts"},
}, {
	who:  []string{"cluster", "kit"},
	what: []string{"controllers", "scheduler", "sim", "store/etcd", "google.golang.org/grpc"},
	why:  "main hands package cluster a kit.Kit with loops, simulated nodes and etcd, so that a program links only what it uses",
	except: map[string]string{
		"cluster controllers/apiservice":        "which groups other servers answer is part of the API server",
		"cluster controllers/apiserveridentity": "every API server says that it is there, with other loops or none",
		"cluster controllers/definition":        "which kinds users define is part of the API server",
		"cluster controllers/flowschema":        "the status of flow schemas, as the API server writes it",
		"kit controllers/namespace":             "the contract with servers behind APIServices",
		"kit/whole controllers":                 "has all",
		"kit/whole scheduler":                   "has all",
		"kit/whole sim":                         "has all",
		"kit/whole store/etcd":                  "has all",
	},
}, {
	who:  []string{""},
	what: []string{"k8s.io/cri-api"},
	why:  "the container runtime is the agent's",
	except: map[string]string{"node k8s.io/cri-api": "the agent",
		"test/bench k8s.io/cri-api": "what the agent's calls cost without the agent"},
}, {
	who: []string{""},
	what: []string{"k8s.io/kubernetes", "k8s.io/apiserver/pkg/server", "k8s.io/apiserver/pkg/registry",
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "plugin"},
	why: "kloop is an implementation of its own; generated clients and the generic server would double the binary",
	except: map[string]string{
		"test/bench k8s.io/client-go/kubernetes":     "measures, and is no part of the binary",
		"test/compare k8s.io/client-go/kubernetes":   "compares running clusters, and is no part of the binary",
		"simtest k8s.io/client-go/kubernetes/scheme": "the types that an operator's test knows if it names no others; no part of the binary",
	},
}, {
	who:  []string{""},
	what: []string{"testing"},
	why:  "what the binary links must not pull in the test framework",
	except: map[string]string{
		"store/storetest testing": "the conformance suite of stores",
		"test testing":            "support of tests",
		"internal testing":        "support of tests",
		"simtest testing":         "tests of operators",
		"plan testing":            "simulated time: its bubbles are the only clock of that kind that Go has",
	},
}}

// below says whether a path is dir or lies in it. The empty dir holds everything.
func below(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir+"/")
}

func anyBelow(path string, dirs []string) bool {
	for _, d := range dirs {
		if below(path, d) {
			return true
		}
	}
	return false
}

// excused returns the exceptions that cover an import.
func (b ban) excused(who, what string) (keys []string) {
	for key := range b.except {
		importer, imported, _ := strings.Cut(key, " ")
		if below(who, importer) && below(what, imported) {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestNever checks the borders, and that every exception is still needed.
func TestNever(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		self := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, b := range never {
			if !anyBelow(self, b.who) {
				continue
			}
			for _, imp := range p.Imports {
				dep := strings.TrimPrefix(imp, module+"/")
				excused := b.excused(self, dep)
				for _, key := range excused {
					used[key] = true
				}
				if anyBelow(dep, b.what) && !anyBelow(dep, []string{self}) && len(excused) == 0 {
					t.Errorf("%s imports %s: %s", self, dep, b.why)
				}
			}
		}
	}
	for _, b := range never {
		for key := range b.except {
			if !used[key] && !strings.HasPrefix(key, "internal ") && !strings.HasPrefix(key, "simtest ") {
				t.Errorf("the exception %q is not needed any more: delete it", key)
			}
		}
	}
}

// unlinked are the packages that a program on package engine must not link, not even through others: what runs pods, commands, tests.
var unlinked = []string{module + "/machine", module + "/node", module + "/proxy", module + "/netpolicy", module + "/podnetwork",
	module + "/cli", module + "/plan", module + "/simtest", module + "/test", "k8s.io/cri-api", "k8s.io/kubectl",
	"k8s.io/client-go/kubernetes",
	"github.com/google/nftables", "github.com/vishvananda/netlink", "github.com/containerd", "testing",
	module + "/scheduler", module + "/sim", module + "/kit/whole", module + "/store/etcd", "go.etcd.io", "google.golang.org/grpc"}

// TestEngineLinks checks that package engine stays what other people's control planes can be built on.
func TestEngineLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./engine").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{module + "/node/pressure": true} // pure functions
	loops := map[string]bool{}                                // that it needs: its own, and what the API server does by loops
	for _, l := range []string{"apiserveridentity", "apiservice", "clusterroleaggregation", "csrserving",
		"definition", "flowschema", "garbage",
		"namespace", "rootca", "serviceaccount"} {
		loops[module+"/controllers/"+l] = true
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		loop := below(dep, module+"/controllers") && !below(dep, module+"/controllers/internal") && !loops[dep]
		if loop || anyBelow(dep, unlinked) && !words[dep] {
			t.Errorf("package engine links %s: `go list -deps ./engine` names what it comes with", dep)
		}
	}
}

// onlyThere are calls that one file makes for all: what goes around it is not bounded.
var onlyThere = map[string]string{
	"apiresource.ParseQuantity(":                     "resource/quantity.go",
	"environment.MustBaseEnvSet":                     "kinds/expression/expression.go",
	"DefaultUnstructuredConverter.FromUnstructured(": "resource/codec/codec.go",
}

// TestOnlyThere checks that what others write is read where reading has its bounds.
func TestOnlyThere(t *testing.T) {
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			path := filepath.Join(strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/"), file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for call, there := range onlyThere {
				if path != there && strings.Contains(string(text), call) && !strings.HasPrefix(path, "test/") {
					t.Errorf("%s calls %s: only %s may", path, call, there)
				}
			}
		}
	}
}
