package server_test

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

func TestCreateFillsMetadata(t *testing.T) {
	w := start(t)
	c := configMap("a", "k", "v")
	c.UID, c.DeletionTimestamp, c.SelfLink = "mine", &metav1.Time{}, "/x"
	got := create(w, configMaps, c)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(string(got.UID)) {
		t.Errorf("uid %q", got.UID)
	}
	if got.CreationTimestamp.IsZero() || got.ResourceVersion == "" || got.Namespace != "ns" || got.DeletionTimestamp != nil ||
		got.SelfLink != "" {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	if len(got.ManagedFields) != 1 || got.ManagedFields[0].Manager != "tester" || got.ManagedFields[0].Operation != "Update" {
		t.Errorf("managedFields %+v", got.ManagedFields)
	}
	if got.Generation != 0 {
		t.Errorf("generation %d", got.Generation)
	}
	if d := create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 7}}); d.Generation != 1 {
		t.Errorf("generation %d", d.Generation)
	}
}

func TestCreateRefusals(t *testing.T) {
	w := start(t)
	create(w, configMaps, configMap("taken"))
	long := configMap("long")
	long.Labels = map[string]string{"a": strings.Repeat("v", 64)}
	elsewhere := configMap("b")
	elsewhere.Namespace = "other"
	for _, none := range []string{"0", "none"} { // these are no revisions
		c := configMap("made-" + none)
		c.ResourceVersion = none
		create(w, configMaps, c)
	}
	versioned := configMap("b")
	versioned.ResourceVersion = "5"
	known := configMap("b", "bad", "x")
	known.ResourceVersion = "5"
	owned := configMap("b")
	owned.Finalizers = []string{"no good"}
	orphan := configMap("b")
	orphan.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/b/c", Kind: "Pod", Name: "p"}}
	for _, x := range []struct {
		name string
		obj  *corev1.ConfigMap
		want string
	}{
		{"taken", configMap("taken"), "AlreadyExists"},
		{"no DNS name", configMap("Bad_Name"), "Invalid FieldValueInvalid metadata.name"},
		{"no name", configMap(""), "Invalid FieldValueRequired metadata.name"},
		{"the kind's own rule", configMap("b", "bad", "x"), "Invalid FieldValueInvalid data[bad]"},
		{"labels", long, "Invalid FieldValueInvalid metadata.labels"},
		{"finalizers", owned, "Invalid FieldValueInvalid metadata.finalizers FieldValueInvalid metadata.finalizers[0]"},
		{"owner",
			orphan, "Invalid FieldValueInvalid metadata.ownerReferences[0].apiVersion FieldValueRequired metadata.ownerReferences[0].uid"},
		{"another namespace", elsewhere, "BadRequest"},
		{"with a revision", versioned, "500"},
		{"taken and wrong", known, "Invalid FieldValueInvalid data[bad]"}, // what is wrong with it counts first
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := w.Create(t.Context(), w.ask(configMaps, ""), x.obj); reason(err) != x.want {
				t.Errorf("%s: got %q (%v), want %q", x.obj.Name, reason(err), err, x.want)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	w := start(t)
	for _, base := range []string{"web-", strings.Repeat("x", 80)} {
		got := create(w, configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: base}})
		cut := base[:min(len(base), 58)]
		if !regexp.MustCompile("^" + cut + "[bcdfghjklmnpqrstvwxz2456789]{5}$").MatchString(got.Name) {
			t.Errorf("name %q of base %q", got.Name, base)
		}
	}
	address := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{GenerateName: "10.96.0.9"}}
	if got := create(w, ipAddresses, address); got.Name != "10.96.0.9" {
		t.Errorf("an address is called %q", got.Name)
	}
	if _, err := w.Create(t.Context(), w.ask(jobs, ""),
		&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{GenerateName: "Bad_"}}); reason(
		err) != "Invalid FieldValueInvalid metadata.name" {
		t.Errorf("got %v", err)
	}
}

func TestCreateDryRun(t *testing.T) {
	w := start(t)
	r := w.ask(configMaps, "")
	r.DryRun = true
	e, err := w.Create(t.Context(), r, configMap("a"))
	if err != nil || e.Object.GetUID() == "" || e.Object.GetResourceVersion() != "" {
		t.Fatalf("%+v, %v", e, err)
	}
	if w.get(configMaps, "a") != nil {
		t.Error("a dry run wrote")
	}
	create(w, configMaps, configMap("a"))
	if _, err := w.Create(t.Context(), r, configMap("a")); reason(err) != "AlreadyExists" {
		t.Errorf("got %v", err)
	}
}

func TestCreateAdmission(t *testing.T) {
	var seen []string
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(func(r *admission.Request) error {
			seen = append(seen, string(r.Op)+" "+r.Name)
			r.Object.(*corev1.ConfigMap).Data = map[string]string{"added": "yes"}
			return nil
		}, func(r *admission.Request) error {
			if r.Object.GetUID() == "" {
				t.Error("validated before it was complete")
			}
			return nil
		})
	})
	got := create(w, configMaps, configMap("a", "old", "1"))
	if got.Data["added"] != "yes" || len(seen) != 1 || seen[0] != "CREATE a" {
		t.Errorf("data %v, seen %q", got.Data, seen)
	}
	if f := string(got.ManagedFields[0].FieldsV1.Raw); strings.Contains(f, "added") {
		t.Errorf("what admission added is owned: %s", f)
	}
}

func TestCreateWarns(t *testing.T) {
	w := start(t)
	c := configMap("a", "old", "1")
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	no := ref
	no.Controller = new(bool) // says more than nothing
	c.OwnerReferences = []metav1.OwnerReference{ref, no, ref, no}
	if got := create(w, configMaps, c); len(got.OwnerReferences) != 2 {
		t.Errorf("owners %v", got.OwnerReferences)
	}
	if len(w.warns) != 2 || !strings.Contains(w.warns[0], "duplicate entries;") || w.warns[1] != "old is deprecated" {
		t.Errorf("warnings %q", w.warns)
	}
	w.warns = nil // what a patch leaves is looked at when admission has seen it
	const owner = `{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}`
	owners := `{"metadata":{"ownerReferences":[` + owner + `,` + owner + `]}}`
	if _, _, err := w.Patch(t.Context(), w.ask(configMaps, "a"), types.MergePatchType, []byte(owners), false); err != nil {
		t.Fatal(err)
	}
	if len(w.warns) == 0 || !strings.Contains(w.warns[0], "duplicate entries after mutating admission happens;") {
		t.Errorf("warnings of a patch %q", w.warns)
	}
}

// TestNamesLast: a kind that lets its objects be called anything tells of a bad name when nothing else is wrong.
func TestNamesLast(t *testing.T) {
	loose := &resource.Def[*policyv1.PodDisruptionBudget]{GVK: budgets.GVK, Plural: budgets.Plural, Namespaced: true,
		Quirks: resource.Quirks{NameErrorsLast: true}, Name: rule.Unchecked,
		Validate: func(b, _ *policyv1.PodDisruptionBudget) (errs field.ErrorList) {
			return rule.Needed(b.Spec.MinAvailable.String(), field.NewPath("spec"))
		}}
	for _, c := range []struct {
		name               string
		minor              int
		called, least, lab string
		want               string
	}{
		{"spec, name and label", 37, "a/b", "", "a b", "Invalid FieldValueInvalid metadata.labels FieldValueRequired spec"},
		{"name and label", 37, "a/b", "x", "a b", "Invalid FieldValueInvalid metadata.labels"},
		{"name alone", 37, "a/b", "x", "a", "Invalid FieldValueInvalid metadata.name"},
		{"spec and no name", 37, "", "", "a", "Invalid FieldValueRequired spec"},
		{"spec and name in 1.36", 36, "a/b", "", "a", "Invalid FieldValueRequired spec"},
		{"spec and no name in 1.36", 36, "", "", "a", "Invalid FieldValueRequired metadata.name FieldValueRequired spec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, err := features.New(c.minor, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := start(t, func(config *testcluster.Config) {
				config.Kinds = resource.For(on, nil, namespaces, loose)
				config.View = view.NewWith(config.Kinds, view.Config{})
			})
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: c.called, Labels: map[string]string{c.lab: ""}},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString(c.least))}}
			if _, err := w.Create(t.Context(), w.ask(loose, ""), b); reason(err) != c.want {
				t.Errorf("%q, want %q", reason(err), c.want)
			}
		})
	}
}

// TestBudgetsTellOfMetadataLast: what is wrong with the metadata of a budget is told when nothing else is.
func TestBudgetsTellOfMetadataLast(t *testing.T) {
	strict := &resource.Def[*policyv1.PodDisruptionBudget]{GVK: budgets.GVK, Plural: budgets.Plural, Namespaced: true, Quirks: budgets.Quirks,
		Validate: func(b, _ *policyv1.PodDisruptionBudget) (errs field.ErrorList) {
			if b.Spec.MinAvailable == nil {
				errs = append(errs, field.Required(field.NewPath("spec"), ""))
			}
			return errs
		}}
	w := start(t, func(c *testcluster.Config) {
		c.Kinds = resource.NewSet(namespaces, strict)
		c.View = view.NewWith(c.Kinds, view.Config{})
	})
	for _, c := range []struct {
		name  string
		least *intstr.IntOrString
		want  string
	}{
		{"spec and labels", nil, "Invalid FieldValueRequired spec"},
		{"labels alone", new(intstr.FromInt32(1)), "Invalid FieldValueInvalid metadata.labels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"a b": ""}},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: c.least}}
			if _, err := w.Create(t.Context(), w.ask(strict, ""), b); reason(err) != c.want {
				t.Errorf("%q, want %q", reason(err), c.want)
			}
		})
	}
}

// Admission is told of what kind the options of a connection are.
func TestConnect(t *testing.T) {
	var seen schema.GroupVersionKind
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(nil, func(r *admission.Request) error {
			if r.Op == admission.Connect {
				seen = r.Target.GetObjectKind().GroupVersionKind()
			}
			return nil
		})
	})
	if err := w.Connect(t.Context(), w.ask(pods, "p"), &corev1.PodExecOptions{}); err != nil ||
		seen != corev1.SchemeGroupVersion.WithKind("PodExecOptions") {
		t.Errorf("%v, %v", seen, err)
	}
}
