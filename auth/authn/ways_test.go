package authn

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
)

// TestConstrainedImpersonation gives few permissions, "verb group/resource/subresource namespace/name" each.
func TestConstrainedImpersonation(t *testing.T) {
	const kind = "authentication.k8s.io/"
	agent := &auth.User{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{token.ExtraNodeName: {"n1"}}}
	admin := &auth.User{Name: "admin"}
	for name, c := range map[string]struct {
		by   *auth.User
		as   string // user,group,group…
		may  []string
		want string // user [groups] constraint; else what the error says
	}{
		"user": {admin, "eve", []string{"impersonate-on:user-info:get /pods/ ns/p", "impersonate:user-info " + kind + "users/ /eve"},
			"eve [system:authenticated] impersonate:user-info"},
		"user, not for this": {admin, "eve", []string{"impersonate-on:user-info:list /pods/ ns/p",
			"impersonate:user-info " + kind + "users/ /eve"},
			`cannot impersonate-on:user-info:get resource "pods"`},
		"not this user": {admin, "eve", []string{"impersonate-on:user-info:get /pods/ ns/p", "impersonate:user-info " + kind + "users/ /bob"},
			`cannot impersonate:user-info resource "users" in API group "authentication.k8s.io"`},
		"groups": {admin, "eve,a,b", []string{"impersonate-on:user-info:get /pods/ ns/p", "impersonate:user-info " + kind + "users/ /eve",
			"impersonate:user-info " + kind + "groups/ /a", "impersonate:user-info " + kind + "groups/ /b"},
			"eve [a b system:authenticated] impersonate:user-info"},
		"all groups": {admin, "eve,a,b,c,d", []string{"impersonate-on:user-info:get /pods/ ns/p", "impersonate:user-info " + kind + "users/ /eve",
			"impersonate:user-info " + kind + "groups/ /*"}, "eve [a b c d system:authenticated] impersonate:user-info"},
		"never masters": {admin, "eve,system:masters", []string{"impersonate-on:user-info:get /pods/ ns/p",
			"impersonate:user-info " + kind + "users/ /eve",
			"impersonate:user-info " + kind + "groups/ /system:masters"}, `"system:masters" is not allowed`},
		"the plain way behind": {admin, "eve,system:masters", []string{"impersonate /users/ /eve", "impersonate /groups/ /system:masters"},
			"eve [system:masters system:authenticated] "},
		"service account": {admin, "system:serviceaccount:x:y", []string{"impersonate-on:serviceaccount:get /pods/ ns/p",
			"impersonate:serviceaccount " + kind + "serviceaccounts/ x/y"},
			"system:serviceaccount:x:y [system:serviceaccounts system:serviceaccounts:x system:authenticated] impersonate:serviceaccount"},
		"no service account by user": {admin, "system:serviceaccount:x:y", []string{"impersonate-on:user-info:get /pods/ ns/p",
			"impersonate:user-info " + kind + "users/ /system:serviceaccount:x:y"}, "cannot impersonate-on:serviceaccount:get"},
		"node": {admin, "system:node:n1", []string{"impersonate-on:arbitrary-node:get /pods/ ns/p",
			"impersonate:arbitrary-node " + kind + "nodes/ /n1"},
			"system:node:n1 [system:nodes system:authenticated] impersonate:arbitrary-node"},
		"own node": {agent, "system:node:n1", []string{"impersonate-on:associated-node:get /pods/ ns/p",
			"impersonate:associated-node " + kind + "nodes/ /*"},
			"system:node:n1 [system:nodes system:authenticated] impersonate:associated-node"},
		"other node": {agent, "system:node:n2", []string{"impersonate-on:associated-node:get /pods/ ns/p",
			"impersonate:associated-node " + kind + "nodes/ /*"},
			"cannot impersonate-on:arbitrary-node:get"},
	} {
		t.Run(name, func(t *testing.T) {
			z := allowing{}
			for _, p := range c.may {
				z[p] = true
			}
			h := http.Header{}
			for i, s := range strings.Split(c.as, ",") {
				if i == 0 {
					h.Set(asUser, s)
				} else {
					h.Add(asGroup, s)
				}
			}
			a := &auth.Attributes{User: c.by, Verb: "get", Version: "v1", Resource: "pods", Namespace: "ns", Name: "p"}
			u, constraint, err := Impersonate(t.Context(), a, h, z)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(u.Name, " ", u.Groups, " ", constraint)
			}
			if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

func TestConstrainedExtra(t *testing.T) {
	z := allowing{"impersonate-on:user-info:get /pods/ /": true, "impersonate:user-info authentication.k8s.io/users/ /eve": true,
		"impersonate:user-info authentication.k8s.io/userextras/example.com/k /v": true,
		"impersonate:user-info authentication.k8s.io/userextras/k /v":             true}
	for key, ok := range map[string]bool{"example.com%2fk": true, "k": false, "": false} {
		t.Run(key, func(t *testing.T) {
			h := http.Header{asUser: {"eve"}, asExtra + key: {"v"}}
			_, _, err := Impersonate(t.Context(), &auth.Attributes{User: &auth.User{Name: "admin"}, Verb: "get", Resource: "pods"}, h, z)
			if (err == nil) != ok {
				t.Errorf("%q: %v", key, err)
			}
		})
	}
}
