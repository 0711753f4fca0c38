package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Errors whose place or number surprises, as upstream's own code tells them. old: what is stored.
func TestErrorsAsUpstream(t *testing.T) {
	const tmpl = `template: {metadata: {labels: {a: a b}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}`
	for _, c := range []struct {
		name, old, obj string
		want           []string
	}{
		{"labels of a set's template are told of twice", "", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {
			selector: {matchLabels: {a: b}}, ` + strings.Replace(tmpl, "restartPolicy: Never, ", "", 1) + `}}`,
			[]string{"Invalid spec.template.labels", "Invalid spec.template.labels", "Invalid spec.template.metadata.labels"}},
		{"a set must restart whatever it selects", "", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {
			selector: {matchLabels: {a: b/c/d}}, ` + tmpl + `}}`,
			[]string{"Invalid spec.selector", "Invalid spec.selector.matchLabels", "NotSupported spec.template.spec.restartPolicy"}},
		{"empty topologies", "", `{apiVersion: storage.k8s.io/v1, kind: StorageClass, provisioner: p.example, allowedTopologies: [{}, {}]}`,
			slices.Concat(slices.Repeat([]string{"Duplicate allowedTopologies[0].matchLabelExpressions"}, 2),
				slices.Repeat([]string{"Duplicate allowedTopologies[1].matchLabelExpressions"}, 3))},
		{"a mode that nobody knows", "", `{apiVersion: batch/v1, kind: Job, spec: {completionMode: X, backoffLimitPerIndex: 1,
			template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`, []string{"NotSupported spec.completionMode"}},
		{"tolerations differ in four fields", "", `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, handler: h, scheduling: {tolerations: [
			{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 1}, {key: a, operator: Exists, effect: NoExecute}]}}`,
			[]string{"Duplicate scheduling.tolerations[1]"}},
		{"a second source", "", `{apiVersion: v1, kind: PersistentVolume, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1},
			hostPath: {path: /a}, local: {path: /b}}}`, []string{"Forbidden spec.local"}},
		{"a revision keeps its data", `{apiVersion: apps/v1, kind: ControllerRevision, data: {a: 1}}`,
			`{apiVersion: apps/v1, kind: ControllerRevision}`, []string{"Invalid data"}},
		{"a changed volume is looked at twice", `{apiVersion: v1, kind: PersistentVolume, spec: {accessModes: [ReadWriteOnce],
			capacity: {storage: 1}, hostPath: {path: /a}}}`, `{apiVersion: v1, kind: PersistentVolume, spec: {accessModes: [ReadWriteOnce],
			capacity: {storage: 1}, hostPath: {path: /a}, storageClassName: A_B}}`, slices.Repeat([]string{"Invalid spec.storageClassName"}, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := kinds.NewSet()
			var old resource.Object
			if c.old != "" {
				old, _ = write(nil, parsed(t, set, c.old), nil, "")
			}
			_, errs := write(nil, parsed(t, set, c.obj), old, "")
			got := said(errs)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Changes of fixed fields of a StatefulSet are refused one by one since 1.37.
func TestFixedFieldsOfSets(t *testing.T) {
	const base = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {serviceName: a, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`
	for minor, want := range map[int]string{36: "Forbidden spec", 37: "Invalid spec.serviceName"} {
		on, err := features.New(minor, nil)
		if err != nil {
			t.Fatal(err)
		}
		set := kinds.SetFor(on, nil)
		old, obj := parsed(t, set, base), parsed(t, set, strings.Replace(base, "serviceName: a", "serviceName: b", 1))
		for _, o := range []resource.Object{old, obj} {
			kinds.StatefulSets.SetDefaults(on, o)
		}
		got := said(kinds.StatefulSets.Check(on, nil, "", obj, old))
		if !slices.Equal(got, []string{want}) {
			t.Errorf("1.%d: %q, want %q", minor, got, want)
		}
	}
}

func parsed(t *testing.T, set *resource.Set, text string) resource.Object {
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &tree); err != nil {
		t.Fatal(err)
	}
	return decode(t, set, tree)
}
