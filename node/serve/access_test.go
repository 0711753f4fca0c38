package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// reviewer knows one token, and lets its owner read metrics and pods.
type reviewer struct {
	client.Client
	asked []string
	down  bool
}

func (v *reviewer) Create(_ context.Context, _ resource.Kind, obj resource.Object) (resource.Object, error) {
	if v.down {
		return nil, errors.New("no server")
	}
	switch o := obj.(type) {
	case *authenticationv1.TokenReview:
		v.asked = append(v.asked, "who is "+o.Spec.Token)
		out := o.DeepCopy()
		switch o.Spec.Token {
		case "good":
			out.Status.Authenticated, out.Status.User.Username = true, "metrics"
		case "namesake": // issuers choose names as they like
			out.Status.Authenticated, out.Status.User.Username = true, serverUser
		}
		return out, nil
	case *authorizationv1.SubjectAccessReview:
		at := o.Spec.ResourceAttributes
		v.asked = append(v.asked, fmt.Sprintf("may %s %s %s/%s/%s", o.Spec.User, at.Verb, at.Resource, at.Name, at.Subresource))
		out := o.DeepCopy()
		out.Status.Allowed = at.Verb == "get" && (at.Subresource == "metrics" || at.Subresource == "proxy")
		return out, nil
	}
	return nil, fmt.Errorf("unexpected %T", obj)
}

func TestTokens(t *testing.T) {
	v := &reviewer{}
	h := New(Config{Node: "n1", Client: v})
	for _, tt := range []struct {
		token, request string
		down           bool
		code           int
		asked          []string
	}{
		{"", "GET /metrics/none", false, 401, nil},
		{"Basic good", "GET /metrics/none", false, 401, nil},
		{"Bearer bad", "GET /metrics/none", false, 401, []string{"who is bad"}},
		{"Bearer bad", "GET /metrics/none", false, 401, nil}, // remembered
		{"Bearer good", "GET /metrics/none", false, 404, []string{"who is good", "may metrics get nodes/n1/metrics"}},
		{"Bearer good", "GET /metrics/none", true, 404, nil},
		{"bearer good", "POST /run/a/b/c", false, 403, []string{"may metrics create nodes/n1/proxy"}},
		{"Bearer good", "GET /stats/none", false, 403, []string{"may metrics get nodes/n1/stats"}},
		{"Bearer good", "GET /healthz", false, 200, []string{"may metrics get nodes/n1/healthz", "may metrics get nodes/n1/proxy"}},
		{"Bearer other", "GET /healthz", true, 500, nil},
		{"Bearer namesake", "POST /run/a/b/c", false, 403, []string{"who is namesake",
			"may kube-apiserver-kubelet-client create nodes/n1/proxy"}},
	} {
		t.Run(tt.token, func(t *testing.T) {
			v.asked, v.down = nil, tt.down
			var method, path string
			if _, err := fmt.Sscan(tt.request, &method, &path); err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), method, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", tt.token)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if rec.Code != tt.code || !slices.Equal(v.asked, tt.asked) {
				t.Errorf("%q %s: %d, asked %q; want %d, %q", tt.token, tt.request, rec.Code, v.asked, tt.code, tt.asked)
			}
		})
	}
}
