package server_test

import (
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
)

// Admission judges no call that is invalid: a webhook that can't be reached refuses what is well formed alone (1.37.2).
func TestInvalidCallsAreNotAdmitted(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Kinds.Put(accounts)
		c.Extensions.Access.Tokens = issuer{}
		c.Admission = plugin(nil, func(r *admission.Request) error {
			if r.Sub == "" {
				return nil
			}
			return errors.New("nobody answers")
		})
	})
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	create(w, accounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}})
	binding := func(node string) resource.Object {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: node}}
	}
	token := func(life int64) resource.Object {
		return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}
	}
	for _, c := range []struct {
		kind      resource.Kind
		name, sub string
		in        resource.Object
		want      string
	}{
		{pods, "p", "binding", binding(""), "target.name: Required value"},
		{pods, "p", "binding", binding("n"), "nobody answers"},
		{accounts, "robot", "token", token(1), "too short"},
		{accounts, "robot", "token", token(600), "nobody answers"},
	} {
		if _, err := w.Call(t.Context(), sub(w.ask(c.kind, c.name), c.sub), "create", c.in); err == nil || err.Error() != c.want {
			t.Errorf("%s %v: %v, want %s", c.sub, c.in, err, c.want)
		}
	}
}
