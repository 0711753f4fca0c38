package cel

import (
	"context"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// An Input is a request as expressions see it. Values are made when an expression names them. For one goroutine.
type Input struct {
	Object, Old runtime.Object    // in the version that the rule matched; nil for none
	Params      runtime.Object    // nil for none
	Namespace   *corev1.Namespace // of the request; nil for none
	request     *admissionv1.AdmissionRequest
	asked       *admission.Request
	checks      *checks

	values map[string]ref.Val
}

// NewInput describes a request to a rule that matched it as the given kind and resource. a answers
// expressions that ask for permissions; nil leaves the name authorizer without a value.
func NewInput(ctx context.Context, r *admission.Request, kind schema.GroupVersionKind, gvr schema.GroupVersionResource,
	a auth.Authorizer) (*Input, error) {
	in := &Input{asked: r, request: Describe(r, kind, gvr), values: map[string]ref.Val{}}
	if a != nil {
		in.checks = &checks{ask: a, user: r.User}
	}
	var err error
	if in.Object, err = Seen(ctx, r, r.Object, kind); err != nil {
		return nil, err
	}
	if r.Target != nil { // what a connection is asked for
		in.Object = r.Target
	}
	if in.Old, err = Seen(ctx, r, r.Old, kind); err != nil {
		return nil, err
	}
	return in, nil
}

// SetObject replaces the object, for the expressions that come next.
func (in *Input) SetObject(obj runtime.Object) {
	in.Object = obj
	delete(in.values, "object")
}

// SetParams replaces the parameters, for the expressions that come next.
func (in *Input) SetParams(p runtime.Object) {
	in.Params = p
	delete(in.values, "params")
}

// resolve returns the value of a name.
func (in *Input) resolve(ctx context.Context, name string) (any, bool) {
	if v, ok := in.values[name]; ok {
		return v, true
	}
	v := in.value(ctx, name)
	if v == nil {
		return nil, false
	}
	in.values[name] = v
	return v, true
}

func (in *Input) value(ctx context.Context, name string) ref.Val {
	switch name {
	case "object":
		return objectValue(in.Object)
	case "oldObject":
		return objectValue(in.Old)
	case "params":
		return objectValue(in.Params)
	case "request":
		return common.SchemalessTypedToVal(in.request)
	case "namespaceObject":
		return namespaceValue(in.Namespace)
	}
	if in.checks == nil {
		return nil
	}
	in.checks.ctx = ctx
	switch name {
	case "authorizer":
		return library.NewAuthorizerVal(caller{in.asked.User}, in.checks)
	case "authorizer.requestResource":
		return library.NewResourceAuthorizerVal(caller{in.asked.User}, in.checks, asked{in.asked})
	}
	return nil
}

// objectValue is an object as a value of the language; typed objects are read field by field as they are needed.
func objectValue(obj runtime.Object) ref.Val {
	switch o := obj.(type) {
	case nil:
		return types.NullValue
	case runtime.Unstructured:
		return types.DefaultTypeAdapter.NativeToValue(o.UnstructuredContent())
	case resource.Sealed:
		return common.SchemalessTypedToVal(o.Open())
	}
	return common.SchemalessTypedToVal(obj)
}

// namespaceValue is a namespace without the metadata that expressions are not shown.
func namespaceValue(ns *corev1.Namespace) ref.Val {
	if ns == nil {
		return types.NullValue
	}
	shown := &corev1.Namespace{Spec: ns.Spec, Status: ns.Status, ObjectMeta: ns.ObjectMeta}
	shown.ManagedFields, shown.OwnerReferences, shown.SelfLink = nil, nil, ""
	return common.SchemalessTypedToVal(shown)
}

// Describe returns the request as expressions and webhooks see it, without the objects and a uid. kind and
// resource are those that the rule matched.
func Describe(r *admission.Request, kind schema.GroupVersionKind, gvr schema.GroupVersionResource) *admissionv1.AdmissionRequest {
	own, spoken := r.Resource(), metav1.GroupVersionKind(r.Spoken())
	dry := r.DryRun
	q := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(gvr), SubResource: r.Sub,
		RequestKind:        &spoken,
		RequestResource:    &metav1.GroupVersionResource{Group: own.Group, Version: own.Version, Resource: own.Resource},
		RequestSubResource: r.Sub, Name: r.Name, Namespace: r.Namespace, Operation: admissionv1.Operation(r.Op), DryRun: &dry,
	}
	if opts, ok := r.Options.(runtime.Object); ok {
		q.Options.Object = opts
	}
	if u := r.User; u != nil {
		q.UserInfo = authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authenticationv1.ExtraValue{}}
		for key, values := range u.Extra {
			q.UserInfo.Extra[key] = values
		}
	}
	return q
}

// SetNamespace replaces the namespace, for the expressions that come next; nil is none.
func (in *Input) SetNamespace(ns *corev1.Namespace) {
	in.Namespace = ns
	delete(in.values, "namespaceObject")
}
