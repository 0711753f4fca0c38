package httpapi

import (
	"net/http"

	authentication "k8s.io/api/authentication/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// bodies make the objects that subresources exchange where it is not the kind's own.
var bodies = map[schema.GroupVersionKind]func() resource.Object{
	autoscaling.SchemeGroupVersion.WithKind("Scale"):           func() resource.Object { return &autoscaling.Scale{} },
	policy.SchemeGroupVersion.WithKind("Eviction"):             func() resource.Object { return &policy.Eviction{} },
	policyv1beta1.SchemeGroupVersion.WithKind("Eviction"):      func() resource.Object { return &policyv1beta1.Eviction{} },
	core.SchemeGroupVersion.WithKind("Binding"):                func() resource.Object { return &core.Binding{} },
	authentication.SchemeGroupVersion.WithKind("TokenRequest"): func() resource.Object { return &authentication.TokenRequest{} },
}

// called says that the answer is code, not data: reviews, binding, eviction, token.
func (c *call) called() bool {
	return c.info.Verb == "create" && (c.info.Sub != "" || c.facts.Virtual)
}

// code decodes what the subresource takes, calls the front door and answers with what it returns.
func (c *call) code() error {
	req := c.request()
	opts, err := createOptions(c.r)
	if err != nil {
		return err
	}
	opts.apply(req)
	in, err := c.input()
	if err != nil {
		return err
	}
	if err := c.body(req, in, false); err != nil {
		return err
	}
	out, err := c.ops().Call(c.r.Context(), req, c.info.Verb, in)
	if err != nil {
		return err
	}
	return c.answer(out)
}

// input is an empty body of the type that the path takes.
func (c *call) input() (resource.Object, error) {
	if c.out == c.gvk {
		return c.kind.New(c.gvk), nil
	}
	empty, ok := bodies[c.out]
	if !ok {
		return nil, generic(http.StatusNotFound)
	}
	in := empty()
	in.GetObjectKind().SetGroupVersionKind(c.out)
	return in, nil
}

// answer sends what the call returned; nothing is success.
func (c *call) answer(out resource.Object) error {
	if out == nil {
		st := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
		fillStatus(st)
		c.w.audit.Answer(st)
		c.object(c.w, c.r, c.acc.plain(), http.StatusCreated, st)
		return nil
	}
	c.w.audit.Answer(out)
	if c.acc.as != "" {
		return c.shaped(http.StatusCreated, c.kind, out)
	}
	c.object(c.w, c.r, c.acc, http.StatusCreated, out)
	return nil
}
