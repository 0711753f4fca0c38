package controllers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// inServer are the controllers that run within the API server, with its rights: they have no account.
var inServer = []string{"apiserveridentity", "apiservice", "definition", "flowschema", "gitsource", "manifests"}

const (
	ownLoop = "a loop of kloop's own: upstream's bootstrap roles have none for it; over HTTP it acts as its kubeconfig says"
	defined = "of kinds that are not built in: who defines them says who may write them"
)

// undeclared are the writes that headers declare and the roles of their accounts do not allow, by controller, with the reason.
// A controller alone stands for all that it writes.
var undeclared = map[string]string{
	"clusterdns":   ownLoop,
	"csrserving":   ownLoop,
	"localstorage": ownLoop,
	"loadbalancer Service: annotation metallb.io/ip-allocated-from-pool":   ownLoop,
	"loadbalancer Lease: one for each address of a pool":                   ownLoop,
	"loadbalancer Lease: and one for each node that speaks BGP":            ownLoop,
	"loadbalancer where pools are wanted and not there: their definitions": ownLoop,
	"loadbalancer where pools are wanted and not there: namespace":         ownLoop,
	"loadbalancer IPAddressPool, BGPPeer: status":                          defined,
	"loadbalancer ServiceL2Status, ServiceBGPStatus: create":               defined,
	"loadbalancer ServiceL2Status, ServiceBGPStatus: update":               defined,
	"loadbalancer ServiceL2Status, ServiceBGPStatus: delete":               defined,
}

// TestDeclaredWrites holds the roles that every cluster has from the start against the headers of all controllers: what a controller
// says it writes is allowed to its account. In process nobody would notice; over HTTP it would be refused.
func TestDeclaredWrites(t *testing.T) {
	accounts, known := accountsOf(t), map[string]bool{}
	dirs, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if !d.IsDir() || d.Name() == "internal" || slices.Contains(inServer, d.Name()) {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			if len(accounts[d.Name()]) == 0 {
				t.Fatal("it has no account in controllers.go, and inServer does not name it")
			}
			for _, w := range declaredWrites(readSource(t, d.Name()).doc) {
				if w.allowed(t, accounts[d.Name()]) {
					continue
				}
				at := d.Name() + " " + w.text
				known[at], known[d.Name()] = true, true
				if undeclared[at] == "" && undeclared[d.Name()] == "" {
					t.Errorf("no role of %q allows %q", accounts[d.Name()], at)
				}
			}
		})
	}
	for at := range undeclared {
		if !known[at] {
			t.Errorf("%q is allowed, or nobody declares it: take it out of undeclared", at)
		}
	}
}

// TestDeclaredReads holds the role of kube-controller-manager against what controllers watch: all of them share one copy of the cluster,
// which is read as it is.
func TestDeclaredReads(t *testing.T) {
	for _, k := range kinds.NewSet().All() {
		i := k.Info()
		for _, verb := range []string{"list", "watch"} {
			if slices.Contains(i.Verbs, verb) && !Allowed(t.Context(), UserOf("kube-controller-manager"), verb, i, "", "", "") {
				t.Errorf("system:kube-controller-manager may not %s %s", verb, i.GR())
			}
		}
	}
}

// accountsOf reads from controllers.go which accounts the loops of each package act as.
func accountsOf(t *testing.T) map[string][]string {
	file, err := parser.ParseFile(token.NewFileSet(), "controllers.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	accounts := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) != 3 {
			return true
		}
		from := lit.Elts[0]
		if call, ok := from.(*ast.CallExpr); ok {
			from = call.Fun
		}
		sel, isSel := from.(*ast.SelectorExpr)
		name, isName := lit.Elts[1].(*ast.BasicLit)
		if isSel && isName {
			account, _ := strconv.Unquote(name.Value)
			accounts[fmt.Sprint(sel.X)] = append(accounts[fmt.Sprint(sel.X)], account)
		}
		return true
	})
	return accounts
}

// A write is what a header declares of one or more kinds.
type write struct {
	text     string
	kinds    []*resource.Info
	verbs    []string // any of them will do
	ns, name string
	sub      string
}

// allowed says whether one of the accounts may write so to all the kinds.
func (w *write) allowed(t *testing.T, accounts []string) bool {
	for _, i := range w.kinds {
		if !slices.ContainsFunc(accounts, func(account string) bool {
			return slices.ContainsFunc(w.verbs, func(verb string) bool {
				return Allowed(t.Context(), UserOf(account), verb, i, w.ns, w.name, w.sub)
			})
		}) {
			return false
		}
	}
	return len(w.kinds) > 0
}

// oneObject finds the namespace and the name of the one object that is written.
var oneObject = regexp.MustCompile(` ([a-z-]+)/([a-z-]+)$`)

var change = []string{"update", "patch"}

// declaredWrites takes the writes of a header apart: kinds, a colon, and what is done to them, a word for each.
func declaredWrites(doc string) (list []write) {
	text := ""
	for _, m := range headerPart.FindAllStringSubmatch(doc, -1) {
		if m[1] == "writes" {
			text = strings.Join(strings.Fields(m[2]), " ")
		}
	}
	for _, clause := range strings.Split(text, "; ") {
		head, does, ok := strings.Cut(clause, ": ")
		switch {
		case clause == "nothing but events":
			head, does = "Event", "create"
		case !ok:
			does = "create, update, delete"
		}
		for _, word := range regexp.MustCompile(`, | and `).Split(does, -1) {
			w := write{text: head + ": " + word, kinds: kindsNamed(head), verbs: change, ns: "kube-system", name: "x"}
			if m := oneObject.FindStringSubmatch(head); m != nil {
				w.ns, w.name = m[1], m[2]
			}
			switch first, _, _ := strings.Cut(word, " "); {
			case first == "create" || first == "delete":
				w.verbs = []string{first}
			case strings.HasPrefix(word, "status") || strings.HasPrefix(word, "the condition"):
				w.sub = "status"
			case word == "scale" || word == "approval" || word == "finalize":
				w.sub = word
			}
			list = append(list, w)
		}
	}
	return list
}

// kindsNamed are the kinds that the head of a clause names: all of them for "every kind", those that scale for "the target".
func kindsNamed(head string) (list []*resource.Info) {
	byName := map[string]*resource.Info{}
	for _, k := range kinds.NewSet().All() {
		i := k.Info()
		byName[i.GVK.Kind] = i
		_, scales := i.Sub("scale")
		every := head == "every kind" || head == "those objects" || head == "every namespaced kind" && i.Namespaced
		if every && slices.Contains(i.Verbs, "delete") || head == "the target" && scales {
			list = append(list, i)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byName)) {
		if regexp.MustCompile(`\b` + kind + `\b`).MatchString(head) {
			list = append(list, byName[kind])
		}
	}
	return list
}
