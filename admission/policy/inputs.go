package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/admission/match"
	"github.com/kloop-dev/kloop/auth"
)

// inputs holds a request as the rules see it that matched it, by version.
type inputs struct {
	r     *admission.Request
	authz auth.Authorizer
	made  map[match.As]*cel.Input
	ns    *corev1.Namespace
}

// input returns the request as it was matched.
func (i *inputs) input(ctx context.Context, as match.As) (*cel.Input, error) {
	if in := i.made[as]; in != nil {
		return in, nil
	}
	in, err := cel.NewInput(ctx, i.r, as.Kind, as.Resource, i.authz)
	if err != nil {
		return nil, err
	}
	if i.made == nil {
		i.made = map[match.As]*cel.Input{}
	}
	i.made[as] = in
	return in, nil
}

// namespace reads the namespace of the request; namespaces themselves are in none. The error refuses the request.
func (i *inputs) namespace(ctx context.Context) (*corev1.Namespace, error) {
	if info := i.r.Kind.Info(); i.r.Namespace == "" || info.Plural == "namespaces" && info.GVK.Group == "" || i.ns != nil {
		return i.ns, nil
	}
	obj, err := match.Namespace(ctx, i.r)
	if err != nil {
		return nil, err
	}
	i.ns, _ = obj.(*corev1.Namespace)
	return i.ns, nil
}
