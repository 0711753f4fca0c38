package ask

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

func TestWrap(t *testing.T) {
	for line, want := range map[string][]string{
		"short": {"short"},
		"web has 0 of 2 replicas because its pod fits nowhere":        {"web has 0 of 2 replicas", "  because its pod fits", "  nowhere"},
		"  error    one two three four five six":                      {"  error    one two three", "           four five six"},
		"  └─ pod/web-1 fits on no node at all":                       {"  └─ pod/web-1 fits on no", "     node at all"},
		"  you can  kubectl rollout undo deployment web -n default x": {"  you can  kubectl rollout undo deployment web -n default x"},
		strings.Repeat("x", 40):                                       {strings.Repeat("x", 40)},
	} {
		t.Run(line, func(t *testing.T) {
			if got := wrap(line, 25); !slices.Equal(got, want) {
				t.Errorf("%q: %q", line, got)
			}
		})
	}
}

// A terminal has colours where states stand, and nothing else changes.
func TestPaint(t *testing.T) {
	p := paper{width: 80, colour: true}
	if got := p.lay("  └─ pod/a crashes  [agent, backing off]\n"); got != "  └─ pod/a crashes  [agent, \x1b[33mbacking off\x1b[0m]\n" {
		t.Errorf("%q", got)
	}
	if got := (paper{}).lay("a, blocked, for 1s\n"); got != "a, blocked, for 1s\n" {
		t.Errorf("%q", got)
	}
}

// What waits for one object is told once, with how many it holds up.
func TestListGroups(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a := &Asker{Now: func() time.Time { return now }}
	gap := func(name, on string, age time.Duration) *convergence.Gap {
		g := &convergence.Gap{Object: convergence.Object{Kind: "Deployment", Namespace: "a", Name: name},
			Verdict: "deployment/" + name + " is stuck", Cause: "ConfigMissing",
			Owner: "a person", State: "Blocked", Since: metav1.NewTime(now.Add(-age)), Because: "the secret db does not exist"}
		g.Waits = &convergence.Wait{Type: "Object", On: &convergence.Object{Kind: "Secret", Resource: "secrets", Namespace: "a", Name: on}}
		return g
	}
	text := a.listOf([]*convergence.Gap{gap("one", "db", time.Minute), gap("two", "db", time.Hour), gap("other", "mail", time.Minute),
		gap("three", "db", time.Minute)})
	want := "a: secret/db is waited for: the secret db does not exist\n    holds up 3: deployment/one, deployment/two, deployment/three\n" +
		"    a person, blocked, for 60m\n" +
		"a: deployment/other is stuck\n    a person, blocked, for 60s\n"
	if text != want {
		t.Errorf("%s", text)
	}
}
