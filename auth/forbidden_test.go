package auth

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestForbidden(t *testing.T) {
	u := &User{Name: "eve"}
	for _, c := range []struct {
		name   string
		a      Attributes
		reason string
		want   string
	}{
		{"a subresource", Attributes{User: u, Verb: "get", Resource: "pods", Subresource: "log", Namespace: "ns", Name: "p"}, "",
			`pods "p" is forbidden: User "eve" cannot get resource "pods/log" in API group "" in the namespace "ns"`},
		{"with the authorizer's reason", Attributes{User: u, Verb: "list", Group: "apps", Resource: "deployments"}, "RBAC: no",
			`deployments.apps is forbidden: User "eve" cannot list resource "deployments" in API group "apps" at the cluster scope: RBAC: no`},
		{"a path", Attributes{User: u, Verb: "get", Path: "/metrics"}, "", `forbidden: User "eve" cannot get path "/metrics"`},
		{"nobody", Attributes{Verb: "get", Path: "/"}, "", `forbidden: User "" cannot get path "/"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Forbidden(&c.a, c.reason); !apierrors.IsForbidden(err) || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"system:serviceaccount:ns:sa": "ns/sa", "system:serviceaccount:ns": "",
		"system:serviceaccount::sa":   "",
		"system:serviceaccount:a:b:c": "", "bob": ""} {
		t.Run(name, func(t *testing.T) {
			ns, sa, ok := SplitServiceAccount(name)
			if ok != (want != "") || ok && (ns+"/"+sa != want || ServiceAccountName(ns, sa) != name) {
				t.Errorf("%s: %s/%s %v", name, ns, sa, ok)
			}
		})
	}
	nodes := []string{GroupNodes}
	for _, c := range []struct {
		name string
		u    *User
		node string
	}{
		{"a node",
			&User{Name: "system:node:n", Groups: nodes}, "n"},
		{"not in the group",
			&User{Name: "system:node:n"}, ""},
		{"without the prefix",
			&User{Name: "n", Groups: nodes}, ""},
		{"without a name", &User{Name: "system:node:", Groups: nodes}, ""},
		{"nobody", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if node, ok := c.u.NodeName(); ok != (c.node != "") || ok && node != c.node {
				t.Errorf("%+v: %q %v", c.u, node, ok)
			}
		})
	}
}

// says is an authorizer with a fixed answer.
type says struct {
	d      Decision
	reason string
	err    error
}

func (s says) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return s.d, s.reason, s.err
}

func TestChain(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		chain Chain
		d     Decision
		why   string
		err   error
	}{
		{"no authorizer", nil, NoOpinion, "", nil},
		{"the first that decides", Chain{says{NoOpinion, "a", nil}, says{Allow, "b", nil}, says{Deny, "c", nil}}, Allow, "b", nil},
		{"a denial before a permission", Chain{says{Deny, "no", nil}, says{Allow, "", nil}}, Deny, "no", nil},
		{"an error without a decision", Chain{says{NoOpinion, "a", broken}, says{NoOpinion, "", nil}}, NoOpinion, "a", broken},
		{"an error before a permission", Chain{says{NoOpinion, "", broken}, says{Allow, "", nil}}, Allow, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, why, err := c.chain.Authorize(context.Background(), &Attributes{})
			if d != c.d || why != c.why || !errors.Is(err, c.err) {
				t.Errorf("%+v: %v %q %v", c.chain, d, why, err)
			}
		})
	}
}
