// Package policystatus tells the authors of validating policies which expressions can't fit the types they are about.
//
//	reads   ValidatingAdmissionPolicy, CustomResourceDefinition
//	writes  ValidatingAdmissionPolicy: status
//	rule    every generation of a policy is checked once; its status holds the warnings
package policystatus

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/admission/policy"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
)

// Controller returns the loop. set holds the built-in kinds, at least.
func Controller(set *resource.Set) *loop.Controller[*admissionregistrationv1.ValidatingAdmissionPolicy] {
	return &loop.Controller[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		Name: "validatingadmissionpolicy-status",
		For:  kinds.ValidatingAdmissionPolicies,
		Skip: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
			return p.Status.ObservedGeneration >= p.Generation
		},
		Writes: []resource.Kind{kinds.ValidatingAdmissionPolicies},
		Reconcile: func(ctx context.Context, c *loop.Ctx, p *admissionregistrationv1.ValidatingAdmissionPolicy) (time.Duration, error) {
			return 0, reconcile(ctx, c, set, p)
		},
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, set *resource.Set, p *admissionregistrationv1.ValidatingAdmissionPolicy) error {
	k := known{set, slices.Collect(c.Each(kinds.CustomResourceDefinitions, ""))}
	warnings, err := (&policy.Checker{Kind: k.kind, Schema: k.schema}).Check(p)
	if err != nil {
		return err
	}
	data, err := json.Marshal(plan(p, warnings))
	if err != nil {
		return err
	}
	return c.Patch(ctx, kinds.ValidatingAdmissionPolicies, p, client.Patch{Type: types.ApplyPatchType, Data: data, Sub: "status", Force: true,
		Manager: "validatingadmissionpolicy-status"})
}

// plan is pure: the status to apply.
func plan(p *admissionregistrationv1.ValidatingAdmissionPolicy, warnings []admissionregistrationv1.ExpressionWarning) map[string]any {
	checked := map[string]any{}
	if len(warnings) > 0 {
		checked["expressionWarnings"] = warnings
	}
	return map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
		"metadata": map[string]any{"name": p.Name},
		"status":   map[string]any{"observedGeneration": p.Generation, "typeChecking": checked}}
}

// known holds the schemas of types: the built-in ones, and those of definitions.
type known struct {
	set  *resource.Set
	defs []resource.Object
}

func (k known) kind(gvr schema.GroupVersionResource) (schema.GroupVersionKind, bool) {
	if _, gvk, ok := k.set.Resource(gvr); ok {
		return gvk, true
	}
	for _, obj := range k.defs {
		d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj)
		if d.Spec.Group != gvr.Group || d.Spec.Names.Plural != gvr.Resource {
			continue
		}
		for _, v := range d.Spec.Versions {
			if v.Name == gvr.Version && v.Served {
				return gvr.GroupVersion().WithKind(d.Spec.Names.Kind), true
			}
		}
	}
	return schema.GroupVersionKind{}, false
}

func (k known) schema(gvk schema.GroupVersionKind) (*spec.Schema, error) {
	for _, obj := range k.defs {
		d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj)
		if d.Spec.Group == gvk.Group && d.Spec.Names.Kind == gvk.Kind {
			return crd.OpenAPI(resource.As[*apiextensionsv1.CustomResourceDefinition](obj), gvk.Version)
		}
	}
	return openapi.Resolved(k.set.Features(), gvk)
}
