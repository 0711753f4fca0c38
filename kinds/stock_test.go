package kinds_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// What a 1.36 tells of the same object otherwise than a 1.37.
func TestToldByVersion(t *testing.T) {
	for _, c := range []struct {
		name, sub, obj string
		kind           schema.GroupVersionKind
		want           map[int][]string
	}{
		{"conditions without type and status", "status", `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, status: {
			currentHealthy: 0, desiredHealthy: 0, expectedPods: 0, disruptionsAllowed: 0,
			conditions: [{reason: R, lastTransitionTime: '2024-01-01T00:00:00Z'}]}}`,
			schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, map[int][]string{
				36: {"Invalid status.conditions[0].type", "Invalid status.conditions[0].type", "NotSupported status.conditions[0].status"},
				37: {"Required status.conditions[0].status", "Required status.conditions[0].type"}}},
		{"alternatives beside the one", "", `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c},
			spec: {devices: {requests: [
			{name: r, exactly: {deviceClassName: d}, firstAvailable: [{name: f}]}]}}}`,
			schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}, map[int][]string{
				36: {"Invalid spec.devices.requests[0]"},
				37: {"Invalid spec.devices.requests[0]", "Required spec.devices.requests[0].firstAvailable[0].deviceClassName"}}},
		{"volumes labelled at the mount", "", `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}],
			securityContext: {seLinuxChangePolicy: MountOption}}}`,
			schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, map[int][]string{
				36: {"NotSupported spec.securityContext.seLinuxChangePolicy"}, 37: nil}},
		{"volumes of a template labelled at the mount", "", `{apiVersion: v1, kind: PodTemplate, metadata: {name: p}, template: {
			spec: {containers: [{name: c, image: i}], securityContext: {seLinuxChangePolicy: MountOption}}}}`,
			schema.GroupVersionKind{Version: "v1", Kind: "PodTemplate"}, map[int][]string{
				36: {"NotSupported template.spec.securityContext.seLinuxChangePolicy"}, 37: nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for minor, want := range c.want {
				on, err := features.New(minor, nil)
				if err != nil {
					t.Fatal(err)
				}
				set := kinds.SetFor(on, nil)
				k, _ := set.Kind(c.kind)
				obj, old := parsed(t, set, c.obj), resource.Object(nil)
				k.SetDefaults(on, obj)
				if c.sub != "" {
					old = resource.Clone(obj)
				}
				if got := said(k.Check(on, &c.kind, c.sub, obj, old)); !slices.Equal(got, want) {
					t.Errorf("%s, 1.%d: %q, want %q", c.name, minor, got, want)
				}
			}
		})
	}
}

// A pod that was stored with another policy than a 1.36 takes keeps it.
func TestPolicyThatWasThere(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := kinds.SetFor(on, nil)
	k, _ := set.Kind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	old := parsed(t, set, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}],
		securityContext: {seLinuxChangePolicy: MountOption}}}`)
	k.SetDefaults(on, old)
	if errs := k.Check(on, nil, "", resource.Clone(old), old); len(errs) > 0 {
		t.Error(errs)
	}
}

// What does not change is told after all that is wrong with what was sent, as upstream tells it.
func TestOrderOfCauses(t *testing.T) {
	const selector, labels, fixed = "Required spec.selector", "Invalid spec.template.metadata.labels", "Invalid spec.selector"
	for _, c := range []struct {
		name, old, obj string
		want           []string
	}{
		{"Deployment", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: s}, spec: {selector: {matchLabels: {a: b}},
			template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`,
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: s}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}`,
			[]string{selector, labels, fixed}},
		{"ReplicaSet", `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: s}, spec: {selector: {matchLabels: {a: b}},
			template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`,
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: s}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}`,
			[]string{selector, labels, fixed}},
		{"StatefulSet", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {selector: {matchLabels: {a: b}},
			template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`,
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}`,
			[]string{selector, labels, "Forbidden spec"}},
		{"binding", "", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {
			policyName: p, validationActions: [Deny], paramRef: {name: n, parameterNotFoundAction: Deny,
			selector: {matchExpressions: [{key: a, operator: X}]}}}}`,
			[]string{"Forbidden spec.paramRef.name", "Invalid spec.paramRef.selector.matchExpressions[0].operator",
				"Forbidden spec.paramRef.selector"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, err := features.New(36, nil)
			if err != nil {
				t.Fatal(err)
			}
			set := kinds.SetFor(on, nil)
			obj, old := parsed(t, set, c.obj), resource.Object(nil)
			k, _ := set.Kind(obj.GetObjectKind().GroupVersionKind())
			if k.SetDefaults(on, obj); c.old != "" {
				old = parsed(t, set, c.old)
				k.SetDefaults(on, old)
			}
			var got []string
			for _, e := range k.Check(on, nil, "", obj, old) {
				got = append(got, said(field.ErrorList{e})...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A template that differs only by a field that is off is the same template.
func TestTemplateGenerationOfWhatIsOff(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := kinds.SetFor(on, nil)
	const base = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {os: {name: linux}, containers: [{name: c, image: i`
	old, obj := parsed(t, set, base+`}]}}}}`), parsed(t, set, base+`, lifecycle: {stopSignal: SIGTERM}}]}}}}`)
	for _, o := range []resource.Object{old, obj} {
		kinds.DaemonSets.SetDefaults(on, o)
	}
	kinds.DaemonSets.PrepareForWrite(on, "", old, nil)
	kinds.DaemonSets.PrepareForWrite(on, "", obj, old)
	if got := obj.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]; got != "1" {
		t.Errorf("template generation %q", got)
	}
}
