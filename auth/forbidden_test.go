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
		a      Attributes
		reason string
		want   string
	}{
		{Attributes{User: u, Verb: "get", Resource: "pods", Subresource: "log", Namespace: "ns", Name: "p"}, "",
			`pods "p" is forbidden: User "eve" cannot get resource "pods/log" in API group "" in the namespace "ns"`},
		{Attributes{User: u, Verb: "list", Group: "apps", Resource: "deployments"}, "RBAC: no",
			`deployments.apps is forbidden: User "eve" cannot list resource "deployments" in API group "apps" at the cluster scope: RBAC: no`},
		{Attributes{User: u, Verb: "get", Path: "/metrics"}, "", `forbidden: User "eve" cannot get path "/metrics"`},
		{Attributes{Verb: "get", Path: "/"}, "", `forbidden: User "" cannot get path "/"`},
	} {
		if err := Forbidden(&c.a, c.reason); !apierrors.IsForbidden(err) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
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
		u    *User
		node string
	}{{&User{Name: "system:node:n", Groups: nodes}, "n"}, {&User{Name: "system:node:n"}, ""}, {&User{Name: "n", Groups: nodes}, ""},
		{&User{Name: "system:node:", Groups: nodes}, ""}, {nil, ""}} {
		if node, ok := c.u.NodeName(); ok != (c.node != "") || ok && node != c.node {
			t.Errorf("%+v: %q %v", c.u, node, ok)
		}
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
		chain Chain
		d     Decision
		why   string
		err   error
	}{
		{nil, NoOpinion, "", nil},
		{Chain{says{NoOpinion, "a", nil}, says{Allow, "b", nil}, says{Deny, "c", nil}}, Allow, "b", nil},
		{Chain{says{Deny, "no", nil}, says{Allow, "", nil}}, Deny, "no", nil},
		{Chain{says{NoOpinion, "a", broken}, says{NoOpinion, "", nil}}, NoOpinion, "a", broken},
		{Chain{says{NoOpinion, "", broken}, says{Allow, "", nil}}, Allow, "", nil},
	} {
		d, why, err := c.chain.Authorize(context.Background(), &Attributes{})
		if d != c.d || why != c.why || !errors.Is(err, c.err) {
			t.Errorf("%+v: %v %q %v", c.chain, d, why, err)
		}
	}
}
