package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// state is a few objects that requests read.
type state struct {
	resource.Reader
	objects map[resource.Kind][]resource.Object
}

func (s *state) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, obj := range s.objects[k] {
			if (ns == "" || obj.GetNamespace() == ns) && !yield(obj) {
				return
			}
		}
	}
}

func (s *state) Lookup(k resource.Kind, ns, name string) resource.Object {
	for obj := range s.Each(k, ns) {
		if obj.GetName() == name {
			return obj
		}
	}
	return nil
}

// allowed lets everybody delete config maps, and nothing else.
type allowed struct{}

func (allowed) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.Verb == "delete" && a.Resource == "configmaps" {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// A world is policies, what they read, and what requests leave behind.
type world struct {
	t        *testing.T
	state    state
	policies *Policies
	warned   []string
	noted    map[string]string
}

// begin reads objects from YAML documents; config maps get the namespace "ns" if they name none.
func begin(t *testing.T, docs ...string) *world {
	w := &world{t: t, noted: map[string]string{}, state: state{objects: map[resource.Kind][]resource.Object{}}}
	w.policies = New(Config{Kinds: kinds.NewSet(), Authorize: allowed{}, Overlay: apply.NewTracker().Overlay})
	w.add("{apiVersion: v1, kind: Namespace, metadata: {name: ns, labels: {team: x}}}")
	for _, text := range docs {
		w.add(text)
	}
	return w
}

func (w *world) add(text string) {
	w.t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var is metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &is); err != nil {
			w.t.Fatal(err)
		}
		k, ok := w.policies.Kinds.Kind(is.GroupVersionKind())
		if !ok {
			w.t.Fatalf("no kind %v", is)
		}
		obj := k.New(is.GroupVersionKind())
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			w.t.Fatal(err)
		}
		k.SetDefaults(nil, obj)
		if k.Info().Namespaced && obj.GetNamespace() == "" {
			obj.SetNamespace("ns")
		}
		w.state.objects[k] = append(w.state.objects[k], obj)
	}
}

func (w *world) request(obj resource.Object) *admission.Request {
	obj.GetObjectKind().SetGroupVersionKind(core.ConfigMaps.GVK)
	return &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, GVK: core.ConfigMaps.GVK, Namespace: "ns", Name: obj.GetName(),
		Object: obj, User: &auth.User{Name: "ann"}, Read: &w.state, Warn: func(text string) { w.warned = append(w.warned, text) },
		Annotate: func(key, value string) { w.noted[key] = value }}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Labels: map[string]string{"app": "a"}}, Data: data}
}

func (w *world) validate(data map[string]string) error {
	return admission.Chain{w.policies.Validating()}.Validate(w.t.Context(), w.request(configMap(data)))
}

const (
	aboutConfigMaps = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}]}"
	binds           = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, " +
		"spec: {policyName: p, validationActions: [%s]%s}}"
)

func validating(spec string) string {
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n  " +
		strings.ReplaceAll(aboutConfigMaps+"\n"+strings.TrimSpace(spec), "\n", "\n  ")
}

func bound(actions, more string) string { return fmt.Sprintf(binds, actions, more) }

// said is the code, the reason and what the policy said; "" for no error.
func said(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return fmt.Sprint(err)
	}
	s := status.Status()
	return fmt.Sprintf("%d %s %s", s.Code, s.Reason, s.Message)
}

func TestValidate(t *testing.T) {
	const prefix = `configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `
	for _, c := range []struct {
		name, spec string
		data       map[string]string
		want       string
	}{
		{"holds", "validations: [{expression: 'true'}]", nil, ""},
		{"fails", "validations: [{expression: '!has(object.data)'}]", map[string]string{"a": "b"},
			"422 Invalid " + prefix + "failed expression: !has(object.data)"},
		{"message", "validations: [{expression: 'false', message: ' nope '}]", nil, "422 Invalid " + prefix + "nope"},
		{"message expression", "validations: [{expression: 'false', message: nope, messageExpression: \"'not ' + object.metadata.name\"}]", nil,
			"422 Invalid " + prefix + "not c"},
		{"message of two lines", "validations: [{expression: 'false', message: nope, messageExpression: \"'a\\\\nb'\"}]", nil,
			"422 Invalid " + prefix + "nope"},
		{"broken message", "validations: [{expression: 'false', message: nope, messageExpression: 'object.x'}]", nil,
			"422 Invalid " + prefix + "nope"},
		{"reason", "validations: [{expression: 'false', message: nope, reason: Unauthorized}]", nil, "401 Unauthorized " + prefix + "nope"},
		{"too large", "validations: [{expression: 'false', message: nope, reason: RequestEntityTooLarge}]", nil,
			"413 RequestEntityTooLarge " + prefix + "nope"},
		{"the first failure", "validations: [{expression: 'true'}, {expression: 'false', message: one}, {expression: 'false', message: two}]",
			nil, "422 Invalid " + prefix + "one"},
		{"an error", "validations: [{expression: 'object.x == 1'}]", nil,
			"422 Invalid " + prefix + "expression 'object.x == 1' resulted in error: no such key: x"},
		{"an error, ignored", "failurePolicy: Ignore\nvalidations: [{expression: 'object.x == 1'}]", nil, ""},
		{"a failure is not ignored", "failurePolicy: Ignore\nvalidations: [{expression: 'false', message: nope}]", nil,
			"422 Invalid " + prefix + "nope"},
		{"does not compile", "validations: [{expression: 'nothing'}]", nil, "422 Invalid " + prefix + "compilation error: compilation failed: "},
		{"condition unmet", "matchConditions: [{name: a, expression: 'false'}]\nvalidations: [{expression: 'false'}]", nil, ""},
		{"condition met",
			"matchConditions: [{name: a, expression: \"request.userInfo.username == 'ann'\"}]\n" +
				"validations: [{expression: 'false', message: nope}]", nil, "422 Invalid " + prefix + "nope"},
		{"condition fails", "matchConditions: [{name: a, expression: 'object.x'}]\nvalidations: [{expression: 'true'}]", nil,
			"422 Invalid " + prefix + "compilation error: must evaluate to bool"},
		{"conditions see no namespace",
			"matchConditions: [{name: a, expression: 'namespaceObject == null'}]\n" +
				"validations: [{expression: 'namespaceObject != null', message: nope}]", nil, ""},
		{"variables",
			"variables: [{name: num, expression: 'int(object.data.n)'}, {name: big, expression: 'variables.num > 4'}]\n" +
				"validations: [{expression: '!variables.big', messageExpression: \"string(variables.num) + ' is big'\"}]",
			map[string]string{"n": "5"}, "422 Invalid " + prefix + "5 is big"},
		{"namespace", "validations: [{expression: \"namespaceObject.metadata.labels['team'] == 'x'\"}]", nil, ""},
		{"authorizer",
			"validations: [{expression: \"authorizer.requestResource.check('delete').allowed() && " +
				"!authorizer.requestResource.check('get').allowed()\"}]", nil, ""},
		{"budget",
			"validations: [{expression: \"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, " +
				"[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a > 0))))))\"}]",
			nil, "422 Invalid " + prefix + "expression '"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := begin(t, validating(c.spec), bound("Deny", ""))
			err := w.validate(c.data)
			if got := said(err); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			var status apierrors.APIStatus
			if s, ok := err.(apierrors.APIStatus); ok {
				status = s
				if causes := status.Status().Details.Causes; len(causes) != 1 ||
					!strings.HasPrefix(causes[0].Message, "ValidatingAdmissionPolicy 'p' with binding 'b'") {
					t.Errorf("%s: causes %v", c.name, causes)
				}
			}
		})
	}
}

func TestActions(t *testing.T) {
	w := begin(t,
		validating(
			"validations: [{expression: 'true'}, {expression: 'false', message: nope}]\n"+
				"auditAnnotations: [{key: who, valueExpression: 'request.userInfo.username'}, {key: none, valueExpression: 'null'}]"),
		bound("Warn, Audit", ""))
	if err := w.validate(nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': nope"}; !reflect.DeepEqual(w.warned, want) {
		t.Errorf("warned %q", w.warned)
	}
	want := map[string]string{"p/who": "ann",
		failureKey: `[{"message":"nope","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]`}
	if !reflect.DeepEqual(w.noted, want) {
		t.Errorf("noted %q", w.noted)
	}
	w = begin(t, validating("validations: [{expression: 'true'}]\nauditAnnotations: [{key: a, valueExpression: 'object.x'}]"),
		bound("Audit", ""))
	if err := w.validate(nil); !apierrors.IsInvalid(err) {
		t.Errorf("an annotation that can't be made: %v", err)
	}
}

func TestParams(t *testing.T) {
	spec := validating(
		"paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: 'params == null || int(object.data.n) <= " +
			"int(params.data.max)', messageExpression: \"'at most ' + params.data.max\"}]")
	limit := func(ns, name, max, label string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {l: %s}}, data: {max: '%s'}}",
			name, ns, label, max)
	}
	both := []string{limit("ns", "low", "3", "a"), limit("ns", "high", "7", "a"), limit("other", "low", "1", "b")}
	for _, c := range []struct {
		name, ref, n, want string
	}{
		{"by name, here", ", paramRef: {name: low, parameterNotFoundAction: Deny}", "5", "at most 3"},
		{"by name, elsewhere", ", paramRef: {name: low, namespace: other, parameterNotFoundAction: Deny}", "2", "at most 1"},
		{"all that are selected", ", paramRef: {selector: {matchLabels: {l: a}}, parameterNotFoundAction: Deny}", "5", "at most 3"},
		{"enough for all", ", paramRef: {selector: {matchLabels: {l: a}}, parameterNotFoundAction: Deny}", "3", ""},
		{"everything", ", paramRef: {selector: {}, parameterNotFoundAction: Deny}", "5", "at most 3"},
		{"not found, denied", ", paramRef: {name: none, parameterNotFoundAction: Deny}", "9",
			"failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		{"not found, allowed", ", paramRef: {name: none, parameterNotFoundAction: Allow}", "9", ""},
		{"no reference", "", "9", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := begin(t, append(both, spec, bound("Deny", c.ref))...).validate(map[string]string{"n": c.n})
			if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), "denied request: "+c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	for kind, want := range map[string]string{
		"{apiVersion: example.com/v1, kind: None}": "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to " +
			"find resource referenced by paramKind: " +
			"'example.com/v1, Kind=None'",
		"{apiVersion: v1, kind: Node}": "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
	} {
		t.Run(kind, func(t *testing.T) {
			w := begin(t, validating("paramKind: "+kind+"\nvalidations: [{expression: 'true'}]"),
				bound("Deny", ", paramRef: {name: a, namespace: ns, parameterNotFoundAction: Deny}"))
			if err := w.validate(nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
}

func TestBindings(t *testing.T) {
	spec := validating("validations: [{expression: 'false', message: nope}]")
	for _, c := range []struct {
		name, more string
		denied     bool
	}{
		{"everywhere", "", true},
		{"in this namespace", ", matchResources: {namespaceSelector: {matchLabels: {team: x}}}", true},
		{"in another", ", matchResources: {namespaceSelector: {matchLabels: {team: y}}}", false},
		{"this object", ", matchResources: {objectSelector: {matchLabels: {app: a}}}", true},
		{"another", ", matchResources: {objectSelector: {matchLabels: {app: b}}}", false},
		{"not these", ", matchResources: {excludeResourceRules: [{apiGroups: [''], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}",
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := begin(t, spec, bound("Deny", c.more)).validate(nil); (err != nil) != c.denied {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	if err := begin(t, spec).validate(nil); err != nil {
		t.Errorf("a policy without binding: %v", err)
	}
	if err := begin(t, bound("Deny", "")).validate(nil); err != nil {
		t.Errorf("a binding without policy: %v", err)
	}
}

// What is compiled stays until its policy changes, whatever the bindings do.
func TestCompiledOnce(t *testing.T) {
	w := begin(t, validating("validations: [{expression: 'false', message: nope}]"), bound("Deny", ""))
	first := w.policies.validating.of(&w.state)
	if again := w.policies.validating.of(&w.state); again[0] != first[0] {
		t.Error("the same state makes other rules")
	}
	_ = w.validate(nil)
	compiled := first[0].scope
	w.add(strings.Replace(bound("Warn", ""), "name: b", "name: c", 1))
	next := w.policies.validating.of(&w.state)
	if len(next[0].bindings) != 2 || next[0].compiled().scope != compiled {
		t.Errorf("%d bindings, compiled anew: %v", len(next[0].bindings), next[0].scope != compiled)
	}
	k := resource.Kind(admissionregistration.ValidatingAdmissionPolicies)
	changed := resource.Clone(w.state.objects[k][0]).(*admissionregistrationv1.ValidatingAdmissionPolicy)
	changed.Spec.Validations[0].Expression = "true"
	w.state.objects[k] = []resource.Object{changed}
	if err := w.validate(nil); err != nil {
		t.Errorf("the changed policy is not in force: %v", err)
	}
}

func TestExempt(t *testing.T) {
	w := begin(t, strings.Replace(validating("validations: [{expression: 'false'}]"),
		"{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}",
		"{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}", 1), bound("Deny", ""))
	k := admissionregistration.ValidatingAdmissionPolicyBindings
	r := w.request(configMap(nil))
	r.Kind, r.GVK, r.Namespace, r.Object = k, k.GVK, "", k.New(k.GVK)
	if err := (admission.Chain{w.policies.Validating()}).Validate(t.Context(), r); err != nil {
		t.Errorf("a binding can't be written: %v", err)
	}
	h := admissionregistration.ValidatingWebhookConfigurations
	r.Kind, r.GVK, r.Object = h, h.GVK, h.New(h.GVK)
	if err := (admission.Chain{w.policies.Validating()}).Validate(t.Context(), r); err == nil {
		t.Error("webhook configurations are not subject to policies")
	}
}

func mutating(name, spec string) string {
	p := strings.Replace(validating(spec), "kind: Validating", "kind: Mutating", 1)
	p = strings.Replace(p, "name: p", "name: "+name, 1)
	return p + "\n---\n" +
		fmt.Sprintf(
			"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: b-%s}, "+
				"spec: {policyName: %[1]s}}", name)
}

func (w *world) mutate(data map[string]string, more ...admission.Plugin) (*corev1.ConfigMap, error) {
	r := w.request(configMap(data))
	chain := append(slices.Clone(more), w.policies.Mutating())
	err := admission.Chain(chain).Mutate(w.t.Context(), r)
	return r.Object.(*corev1.ConfigMap), err
}

func applies(object string) string {
	return "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"" + object + "\"}}]"
}

func patches(list string) string {
	return "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"" + list + "\"}}]"
}

func TestMutate(t *testing.T) {
	for _, c := range []struct {
		name, spec, want string // data, labels, annotations
	}{
		{"apply", applies("Object{data: {'a': request.userInfo.username}}"), `{"a":"ann","n":"1"} {"app":"a"} null`},
		{"apply a label", applies("Object{metadata: Object.metadata{labels: {'x': namespaceObject.metadata.name}}}"),
			`{"n":"1"} {"app":"a","x":"ns"} null`},
		{"patch", patches(
			"[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a/b': 'c'}}, JSONPatch{op: 'remove', path: '/data/n'}]"),
			`{} {"app":"a"} {"a/b":"c"}`},
		{"escaped key", patches("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'd'}]"),
			`{"n":"1"} {"a/b~c":"d","app":"a"} null`},
		{"a failed test changes nothing",
			patches("[JSONPatch{op: 'test', path: '/data/n', value: '2'}, JSONPatch{op: 'remove', path: '/data/n'}]"), `{"n":"1"} {"app":"a"} null`},
		{"copied", patches("[JSONPatch{op: 'copy', from: '/data/n', path: '/data/m'}]"), `{"m":"1","n":"1"} {"app":"a"} null`},
		{"conditions", "matchConditions: [{name: a, expression: 'false'}]\n" + applies("Object{data: {'a': 'b'}}"), `{"n":"1"} {"app":"a"} null`},
		{"variables", "variables: [{name: v, expression: 'object.data.n + object.data.n'}]\n" +
			applies("Object{data: {'a': variables.v}}"), `{"a":"11","n":"1"} {"app":"a"} null`},
		{"one after the other", "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{data: {'n': '2'}}\"}}, " +
			"{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{data: {'m': object.data.n}}\"}}]",
			`{"m":"2","n":"2"} {"app":"a"} null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := begin(t, mutating("p", c.spec)).mutate(map[string]string{"n": "1"})
			data, _ := json.Marshal(got.Data)
			labels, _ := json.Marshal(got.Labels)
			notes, _ := json.Marshal(got.Annotations)
			if text := fmt.Sprintf("%s %s %s", data, labels, notes); err != nil || text != c.want {
				t.Errorf("%s: %s, want %s, %v", c.name, text, c.want, err)
			}
		})
	}
}

func TestMutationErrors(t *testing.T) {
	const prefix = "policy 'p' with binding 'b-p' denied request: "
	for _, c := range []struct{ name, spec, want string }{
		{"wrong type", applies("Object{data: Object.other{}}"), "403 Invalid " + prefix + "type mismatch: unexpected type name"},
		{"unknown field", applies("Object{nothing: 1}"),
			"403 Invalid " + prefix + "error applying patch: failed to convert patch object to typed object:"},
		{"error", applies("Object{data: {'a': object.x}}"),
			"403 Invalid " + prefix + "expression 'Object{data: {'a': object.x}}' resulted in error: no such key: x"},
		{"patch misses", patches("[JSONPatch{op: 'remove', path: '/nothing'}]"), "403 Invalid " + prefix + "JSON Patch: "},
		{"patch of an unknown field", patches("[JSONPatch{op: 'add', path: '/nothing', value: 1}]"), "500 InternalError "},
		{"no parameters", "paramKind: {apiVersion: v1, kind: None}\n" + applies("Object{}"),
			`403 Forbidden policy "p" denied request: failed to configure policy: failed to find resource`},
		{"ignored", "failurePolicy: Ignore\n" + applies("Object{data: {'a': object.x}}"), "<nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := begin(t, mutating("p", c.spec)).mutate(nil)
			if got := said(err); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		})
	}
}

// A scale has no schema to merge it by, and a definition makes nothing of a patched one: upstream's words for both. A policy that ignores
// what fails lets the scale be written.
func TestMutatedScales(t *testing.T) {
	const prefix = "403 Invalid policy 'p' with binding 'b-p' denied request: "
	const untyped = "error applying patch: failed to convert patch object to typed object: " +
		"no corresponding type for autoscaling/v1, Kind=Scale"
	apply, patch := applies("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
		patches("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}]")
	for _, c := range []struct {
		name, spec, want string
		custom           bool
		replicas         int32
	}{
		{"applied", apply, prefix + untyped, false, 1},
		{"patched", patch, "<nil>", false, 7},
		{"patched of a definition", patch, prefix + "request to convert CR to an invalid group/version: autoscaling/v1", true, 1},
		{"ignored", "failurePolicy: Ignore\n" + patch, "<nil>", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &resource.Def[*appsv1.Deployment]{GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments",
				Namespaced: true, Scale: &resource.Scaled[*appsv1.Deployment]{
					Get: func(d *appsv1.Deployment) resource.Scale { return resource.Scale{Replicas: *d.Spec.Replicas} },
					Set: func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n }}}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
			d.SetGroupVersionKind(k.GVK)
			spec := strings.Replace(mutating("p", c.spec), "apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]",
				"apiGroups: [apps], apiVersions: [v1], operations: ['*'], resources: [deployments/scale]", 1)
			w := begin(t, spec)
			r := w.request(configMap(nil))
			r.Op, r.Kind, r.GVK, r.Sub, r.Name, r.Object, r.Old = admission.Update, k, k.GVK, "scale", "d", d, d.DeepCopy()
			if c.custom {
				r.Kind = definedAs{k}
			}
			err := admission.Chain{w.policies.Mutating()}.Mutate(t.Context(), r)
			if got := said(err); got != c.want || *d.Spec.Replicas != c.replicas {
				t.Errorf("%s, %d replicas", got, *d.Spec.Replicas)
			}
		})
	}
}

// definedAs is a kind that seems to be of a definition.
type definedAs struct{ resource.Kind }

func (d definedAs) Info() *resource.Info {
	i := *d.Kind.Info()
	i.Custom = true
	return &i
}

// A policy that may run again does when others changed the object, one that may not does not.
func TestReinvocation(t *testing.T) {
	counts := func(name, policy string) string {
		return mutating(name, "reinvocationPolicy: "+policy+"\n"+applies("Object{data: {'"+name+"': object.?data.?"+name+".orValue('') + 'x'}}"))
	}
	w := begin(t, counts("a", "IfNeeded"), counts("b", "Never"))
	rounds := 0
	got, err := w.mutate(nil, admission.Plugin{Name: "rounds",
		Mutate: func(context.Context, *admission.Request) error { rounds++; return nil }})
	if err != nil || got.Data["a"] != "xx" || got.Data["b"] != "x" || rounds != 2 {
		t.Errorf("%v after %d rounds, %v", got.Data, rounds, err)
	}
	idle := begin(t, mutating("a", applies("Object{metadata: Object.metadata{labels: {'app': 'a'}}}")))
	rounds = 0
	if _, err := idle.mutate(nil, admission.Plugin{Name: "rounds",
		Mutate: func(context.Context, *admission.Request) error { rounds++; return nil }}); err != nil || rounds != 1 {
		t.Errorf("a mutation that changes nothing: %d rounds, %v", rounds, err)
	}
}

func BenchmarkNoPolicies(b *testing.B) {
	p := New(Config{})
	r := &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, GVK: core.ConfigMaps.GVK, Read: &state{}}
	for b.Loop() {
		_ = p.validate(b.Context(), r)
		_ = p.mutate(b.Context(), r)
	}
}
