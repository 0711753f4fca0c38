package httpapi

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// bodies make the objects that subresources exchange where it is not the kind's own.
var bodies = map[schema.GroupVersionKind]func() resource.Object{
	autoscalingv1.SchemeGroupVersion.WithKind("Scale"):           func() resource.Object { return &autoscalingv1.Scale{} },
	corev1.SchemeGroupVersion.WithKind("Binding"):                func() resource.Object { return &corev1.Binding{} },
	authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"): func() resource.Object { return &authenticationv1.TokenRequest{} },
}

// called says that the answer is code, not data: reviews, binding, eviction, token.
func (c *request) called() bool {
	return c.info.Verb == "create" && (c.info.Sub != "" || c.facts.Virtual)
}

// Bodies of an eviction may be of its first version, which looks as v1 does.
var (
	eviction     = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	betaEviction = schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "Eviction"}
)

// body makes an empty object of a subresource; nil: none is known by this name.
func (c *Config) body(gvk schema.GroupVersionKind) func() resource.Object {
	if gvk == eviction || gvk == betaEviction {
		return c.Evictions
	}
	return bodies[gvk]
}

// code decodes what the subresource takes, calls the front door and answers with what it returns.
func (c *request) code() error {
	req := c.request()
	in, err := c.input()
	if err != nil {
		return err
	}
	if err := c.posted(req, in); err != nil {
		return err
	}
	if err := c.storable(); err != nil {
		return err
	}
	out, err := c.ops().Call(c.r.Context(), req, c.info.Verb, in)
	if err != nil {
		return err
	}
	return c.answer(out)
}

// input is an empty body of the type that the path takes.
func (c *request) input() (resource.Object, error) {
	if c.out == c.gvk {
		return c.kind.New(c.gvk), nil
	}
	empty := c.s.cfg.body(c.out)
	if empty == nil {
		return nil, reply.Generic(http.StatusNotFound)
	}
	in := empty()
	in.GetObjectKind().SetGroupVersionKind(c.out)
	return in, nil
}

// answer sends what the call returned; nothing is success.
func (c *request) answer(out resource.Object) error {
	if out == nil {
		st := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
		reply.FillStatus(st)
		c.w.audit.Answer(st)
		c.send.Object(c.w, c.r, c.acc.Plain(), http.StatusCreated, st)
		return nil
	}
	c.w.audit.Answer(out)
	if c.acc.As != "" {
		return c.shaped(http.StatusCreated, c.kind, out, nil)
	}
	c.send.Object(c.w, c.r, c.acc, http.StatusCreated, out)
	return nil
}
