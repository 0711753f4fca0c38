package why_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/test/need"
)

// A command in an advice is all of it, or what stands behind its words and a colon: a person marks it up to the end of the line.
var (
	named  = regexp.MustCompile(`\b(kubectl|kloop) [a-z]`)
	blanks = regexp.MustCompile(`\b(FILE|CERT|KEY|NODE|NAME|PASSWORD|USER|REGISTRY)\b`)
)

// filled is what a person puts in the place of a word in capitals.
func filled(dir, command string) string {
	return blanks.ReplaceAllStringFunc(command, func(w string) string {
		switch w {
		case "FILE", "CERT", "KEY":
			return filepath.Join(dir, strings.ToLower(w))
		case "NODE":
			return "sim-0"
		}
		return strings.ToLower(w)
	})
}

// An advised is a command, and where it was advised.
type advised struct {
	world                *world
	cause, about, advice string
	command              string // "": the advice has none
}

// advice is all that is advised in the worlds.
func advice(t *testing.T, in map[string]*world, list []situation) (all []advised) {
	t.Helper()
	gvr := convergence.GroupVersion.WithResource("gaps")
	add := func(w *world, obj any) {
		data, err := json.Marshal(obj)
		var g convergence.Gap
		if err = errors.Join(err, json.Unmarshal(data, &g)); err != nil {
			t.Fatal(err)
		}
		all = append(all, advisedIn(t, w, &g)...)
	}
	for _, w := range in {
		gaps, err := w.dyn.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range gaps.Items {
			add(w, &gaps.Items[i])
		}
	}
	for _, s := range list {
		w := in[s.World].with(t)
		if obj, err := w.dyn.Resource(gvr).Namespace(w.spaceOf(s)).Get(t.Context(), s.Ask, metav1.GetOptions{}); err == nil {
			add(w, obj)
		}
	}
	return all
}

// advisedIn lists what a gap advises.
func advisedIn(t *testing.T, w *world, g *convergence.Gap) (all []advised) {
	t.Helper()
	for _, a := range g.Advice {
		one := advised{world: w, cause: g.Cause, about: g.Namespace + "/" + g.Name, advice: a}
		if at := slices.IndexFunc(g.Commands, func(c string) bool { return strings.HasSuffix(a, c) }); at >= 0 {
			one.command = g.Commands[at]
		}
		if before := strings.TrimSuffix(a, one.command); named.MatchString(before) {
			t.Errorf("%s (%s): the command in this advice can't be pasted: %s", one.about, g.Cause, a)
		}
		all = append(all, one)
	}
	return all
}

// pasting runs one command of each form that is advised for a cause, as a person who pastes it. What would change something is asked
// for as a dry run where kubectl has one.
type pasting struct {
	dir  string
	seen map[string]bool
	all  []string // every command that was advised
}

func newPasting(t *testing.T) *pasting {
	t.Helper()
	kubectl, err := findKubectl()
	need.Have(t, need.Kubectl, err)
	p := &pasting{dir: t.TempDir(), seen: map[string]bool{}}
	shim(t, p.dir, kubectl)
	return p
}

// take says whether a command is one of a form that was not seen.
func (p *pasting) take(a *advised) bool {
	words := strings.Fields(a.command)
	key := a.cause + " " + strings.Join(words[:min(3, len(words))], " ")
	if len(words) == 0 {
		return false
	}
	p.all = append(p.all, a.command)
	was := p.seen[key]
	p.seen[key] = true
	return !was
}

func (p *pasting) paste(t *testing.T, a *advised) {
	t.Helper()
	if err := paste(t, p.dir, *a); err != nil {
		t.Errorf("%s (%s): %s\n%v", a.about, a.cause, a.command, err)
	}
}

// checkAdvice pastes what is advised in the worlds, and in the states of converge/testdata. No command that a rule can advise is left out.
func checkAdvice(t *testing.T, in map[string]*world, list []situation) {
	p, turns := newPasting(t), make(chan struct{}, 2)
	var wg sync.WaitGroup
	for _, a := range advice(t, in, list) {
		if !p.take(&a) {
			continue
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			p.paste(t, &a)
		})
	}
	wg.Wait()
	checkTold(t, p)
	t.Logf("%d commands", len(p.seen))
	for _, begin := range written(t) {
		if !slices.ContainsFunc(p.all, func(c string) bool { return strings.HasPrefix(c, begin) }) {
			t.Errorf("no situation and no state of converge/testdata leads to the advice: %s…", begin)
		}
	}
}

func findKubectl() (string, error) {
	if beside, err := filepath.Abs("../../bin/kubectl"); err == nil {
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath("kubectl")
}

// shim puts a kubectl into a directory that changes nothing if it can, and the files that a person has.
func shim(t *testing.T, dir, kubectl string) {
	t.Helper()
	script := `#!/bin/sh
export GOGC=off GOMAXPROCS=1 # a thousand of them run, each for a moment
case "$*" in
*--dry-run=client*) exec '` + kubectl + `' "$@";;
esac
case "$1" in
certificate) shift; exec '` + kubectl + `' get csr "$2";;
delete|patch|scale|label|annotate|taint|uncordon|create|apply|set) exec '` + kubectl + `' "$@" --dry-run=server;;
logs) exec '` + kubectl + `' "$@" --pod-running-timeout=1s;; # few workloads have pods here
replace) shift; [ "$1" = --force ] && exec '` + kubectl + `' create -f - --dry-run=client # it deletes first
	cat >/dev/null; exec '` + kubectl + `' get "$1" "${2%/finalize}";; # of what would be replaced
esac
exec '` + kubectl + `' "$@"
`
	cert, key := keyPair(t)
	for name, text := range map[string]string{"kubectl": script, "file": "a=b\n", "cert": cert, "key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// paste runs a command. Logs that simulated nodes have not count as had.
func paste(t *testing.T, dir string, a advised) error {
	line := filled(dir, a.command)
	if words := strings.Fields(line); words[0] == "kloop" {
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), strings.NewReader(""), &out, &errs, append(words, "--help")); code != 0 {
			return fmt.Errorf("it ends with %d: %s", code, &errs)
		}
		return nil
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "KUBECONFIG="+a.world.config, "EDITOR=true")
	out, err := cmd.CombinedOutput()
	for _, fine := range []string{"previous terminated container", "is waiting to start", "has no agent to ask",
		"etrics not available", "etrics API not available", "timed out waiting for the condition",
		"for bound claims",                  // those that are laid are not
		"have enough allocatable resources", // nodes that are laid have none
	} {
		if bytes.Contains(out, []byte(fine)) {
			return nil
		}
	}
	if strings.HasPrefix(a.advice, "if ") && bytes.Contains(out, []byte("doesn't have a resource type")) {
		return nil // it is for those who have it
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// keyPair is a certificate and its key, in PEM.
func keyPair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", private)
}
