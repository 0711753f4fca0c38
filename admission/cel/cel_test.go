package cel

import (
	"context"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
)

// deleter lets everybody delete config maps.
type deleter struct{ asked int }

func (d *deleter) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if d.asked++; a.Verb == "delete" && a.Resource == "configmaps" && a.Namespace == "ns" {
		return auth.Allow, "because", nil
	}
	return auth.NoOpinion, "", nil
}

func configMap() *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns", Labels: map[string]string{"a": "b"}},
		Data: map[string]string{"n": "5", "cpu": "100m", "ip": "10.0.0.1", "v": "1.2.3"}}
	c.SetGroupVersionKind(core.ConfigMaps.GVK)
	return c
}

func input(t *testing.T, a auth.Authorizer) *Input {
	t.Helper()
	r := &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, GVK: core.ConfigMaps.GVK, Namespace: "ns", Name: "c",
		Object: configMap(), Options: &metav1.CreateOptions{FieldManager: "m"},
		User: &auth.User{Name: "ann", Groups: []string{"g"}, Extra: map[string][]string{"k": {"x"}}}}
	in, err := NewInput(t.Context(), r, core.ConfigMaps.GVK, r.Resource(), a)
	if err != nil {
		t.Fatal(err)
	}
	in.Namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "x"}}}
	return in
}

func TestWhatExpressionsSee(t *testing.T) {
	for _, text := range []string{
		`object.data.n == '5' && object.kind == 'ConfigMap' && object.apiVersion == 'v1'`,
		`oldObject == null`,
		`params == null`,
		`has(object.data) && !has(object.binaryData) && 'a' in object.metadata.labels`,
		`object.data.?missing.orValue('none') == 'none'`,
		`request.operation == 'CREATE' && request.name == 'c' && request.namespace == 'ns' && request.resource.resource == 'configmaps'`,
		`request.kind.kind == 'ConfigMap' && request.requestKind.version == 'v1' && !request.dryRun`,
		`request.userInfo.username == 'ann' && 'g' in request.userInfo.groups && request.userInfo.extra['k'] == ['x']`,
		`request.options.fieldManager == 'm'`,
		`namespaceObject.metadata.labels['team'] == 'x' && namespaceObject.metadata.name == 'ns'`,
		`authorizer.group('').resource('configmaps').namespace('ns').check('delete').allowed()`,
		`!authorizer.group('').resource('configmaps').namespace('ns').check('get').allowed()`,
		`authorizer.requestResource.check('delete').reason() == 'because'`,
		`authorizer.serviceAccount('ns', 'x').group('').resource('configmaps').namespace('ns').check('delete').allowed()`,
		`quantity(object.data.cpu).isLessThan(quantity('1'))`,
		`ip(object.data.ip).family() == 4 && cidr('10.0.0.0/8').containsIP(object.data.ip)`,
		`semver(object.data.v).isGreaterThan(semver('1.0.0'))`,
		`object.data.n.find('[0-9]') == '5' && url('https://a.b/c').getHost() == 'a.b'`,
		`[1, 2, 3].sum() == 6 && [1, 1].isSorted() && sets.contains([1, 2], [1]) && 'a,b'.split(',').size() == 2`,
		`!format.dns1123Label().validate('A_b').hasValue() == false`,
		`object.metadata.labels.all(k, v, k == 'a' && v == 'b')`,
	} {
		s := NewScope(Declared{Params: true, Authorizer: true})
		p := s.Compile(text, Bool)
		if p.Err() != nil {
			t.Errorf("%s: %v", text, p.Err())
			continue
		}
		v, _, err := input(t, &deleter{}).Run(t.Context(), s, Budget).Eval(p)
		if err != nil || v.Value() != true {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

// A connection is judged by what it asks for.
func TestConnect(t *testing.T) {
	r := &admission.Request{Op: admission.Connect, Kind: core.Pods, GVK: core.Pods.GVK, Namespace: "ns", Name: "p", Sub: "exec",
		Target: &corev1.PodExecOptions{Container: "c", Command: []string{"sh"}}}
	in, err := NewInput(t.Context(), r, r.Spoken(), r.Resource(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := NewScope(Declared{})
	p := s.Compile(
		`request.kind.kind == 'PodExecOptions' && request.subResource == 'exec' && object.container == 'c' && object.command[0] == 'sh' && `+
			`oldObject == null`, Bool)
	if v, _, err := in.Run(t.Context(), s, Budget).Eval(p); err != nil || v.Value() != true {
		t.Errorf("%v %v", v, err)
	}
}

func TestCompileErrors(t *testing.T) {
	for text, want := range map[string]string{
		`object.`:            "compilation failed:",
		`object.x + nothing`: "undeclared reference to 'nothing'",
		`params.x == 1`:      "undeclared reference to 'params'",
		`variables.x == 1`:   "undeclared reference to 'variables'",
		`'text'`:             "must evaluate to bool but got string",
	} {
		t.Run(text, func(t *testing.T) {
			p := NewScope(Declared{}).Compile(text, Bool)
			if p.Err() == nil || !strings.Contains(p.Err().Error(), want) {
				t.Errorf("%s: %v, want %s", text, p.Err(), want)
			}
		})
	}
	p := NewScope(Declared{}).Compile(`1`, StringOrNull)
	if want := "must evaluate to one of [string null_type] but got int"; p.Err() == nil || p.Err().Error() != want {
		t.Errorf("%v, want %s", p.Err(), want)
	}
}

func TestVariables(t *testing.T) {
	s := NewScope(Declared{Variables: true})
	s.Variable("n", `int(object.data.n)`)
	s.Variable("twice", `variables.n * 2`)
	s.Variable("broken", `int(object.data.cpu)`)
	s.Variable("list", `[variables.n]`)
	if p := s.Compile(`variables.n == 'text'`, Bool); p.Err() == nil {
		t.Error("a variable of the wrong type is let through")
	}
	run := input(t, nil).Run(t.Context(), s, Budget)
	v, _, err := run.Eval(s.Compile(`variables.twice == 10 && variables.list[0] == 5 && (false && variables.broken == 1) == false`, Bool))
	if err != nil || v.Value() != true {
		t.Errorf("%v, %v", v, err)
	}
	if _, fatal, err := run.Eval(s.Compile(`variables.broken == 1`, Bool)); fatal || err == nil ||
		!strings.Contains(err.Error(), `composited variable "broken" fails to evaluate`) {
		t.Errorf("broken variable: %v, %v", fatal, err)
	}
}

func TestBudget(t *testing.T) {
	s := NewScope(Declared{})
	p := s.Compile(`object.data.all(k, object.data.all(l, l.size() > 0))`, Bool)
	run := input(t, nil).Run(t.Context(), s, 30)
	if _, fatal, err := run.Eval(p); !fatal || err == nil || !strings.Contains(err.Error(), "running out of cost budget") {
		t.Errorf("over the budget: %v, %v", fatal, err)
	}
	dear := s.Compile(`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, `+
		`[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a + b + c + d + e > 0)))))`, Bool)
	if _, _, err := input(t, nil).Run(t.Context(), s, Budget).Eval(dear); err == nil {
		t.Error("one expression may cost more than an expression may")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := input(t, nil).Run(ctx, s, Budget).Eval(dear); err == nil {
		t.Error("an evaluation outlives its context")
	}
}

func TestMatchConditions(t *testing.T) {
	yes, no := admissionregistrationv1.MatchCondition{Name: "yes", Expression: "true"},
		admissionregistrationv1.MatchCondition{Name: "no", Expression: "object.data.n == '6'"}
	wrong := admissionregistrationv1.MatchCondition{Name: "wrong", Expression: "object.spec.x == 1"}
	ignore := admissionregistrationv1.Ignore
	for _, c := range []struct {
		name  string
		list  []admissionregistrationv1.MatchCondition
		fail  *admissionregistrationv1.FailurePolicyType
		match bool
		unmet string
		err   string
	}{
		{name: "none", match: true},
		{name: "true", list: []admissionregistrationv1.MatchCondition{yes}, match: true},
		{name: "false", list: []admissionregistrationv1.MatchCondition{yes, no}, unmet: "no"},
		{name: "an error", list: []admissionregistrationv1.MatchCondition{wrong, yes}, err: "no such key: spec"},
		{name: "an error, ignored", list: []admissionregistrationv1.MatchCondition{wrong, yes}, fail: &ignore},
		{name: "false and an error", list: []admissionregistrationv1.MatchCondition{wrong, no}, unmet: "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			match, unmet, err := NewMatchConditions(c.list, c.fail).Match(t.Context(), input(t, nil))
			if match != c.match || unmet != c.unmet || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v %q %v", c.name, match, unmet, err)
			}
		})
	}
}

func TestChecksAreAskedOnce(t *testing.T) {
	s, d := NewScope(Declared{Authorizer: true}), &deleter{}
	run := input(t, d).Run(t.Context(), s, Budget)
	p := s.Compile(
		`authorizer.group('').resource('pods').check('get').allowed() || authorizer.group('').resource('pods').check('get').allowed()`, Bool)
	if _, _, err := run.Eval(p); err != nil || d.asked != 1 {
		t.Errorf("asked %d times, %v", d.asked, err)
	}
}

func TestPatches(t *testing.T) {
	s := NewScope(Declared{Variables: true})
	s.Variable("name", `'x'`)
	p := s.CompilePatch(`[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: variables.name}]`, Patch)
	q := s.CompilePatch(`Object{metadata: Object.metadata{labels: {'x': variables.name}}}`, Applied)
	run := input(t, nil).Run(t.Context(), s, Budget)
	for _, one := range []*Program{p, q} {
		if v, _, err := run.Eval(one); err != nil || v == nil {
			t.Errorf("%s: %v", one.text, err)
		}
	}
	if p := s.Compile(`Object{}`, Applied); p.Err() == nil {
		t.Error("conditions may make objects")
	}
}

func BenchmarkCompilePolicy(b *testing.B) {
	for b.Loop() {
		s := NewScope(Declared{Params: true, Authorizer: true, Variables: true})
		s.Variable("n", `int(object.data.n)`)
		if p := s.Compile(`variables.n > 4`, Bool); p.Err() != nil {
			b.Fatal(p.Err())
		}
	}
}

func BenchmarkEval(b *testing.B) {
	s := NewScope(Declared{Params: true, Authorizer: true, Variables: true})
	s.Variable("n", `int(object.data.n)`)
	p := s.Compile(`variables.n > 4 && object.metadata.labels['a'] == 'b'`, Bool)
	var params runtime.Object = configMap()
	for b.Loop() {
		r := &admission.Request{Op: admission.Create, Kind: core.ConfigMaps, GVK: core.ConfigMaps.GVK, Object: configMap(), User: &auth.User{}}
		in, _ := NewInput(b.Context(), r, r.GVK, r.Resource(), nil)
		in.Params = params
		if _, _, err := in.Run(b.Context(), s, Budget).Eval(p); err != nil {
			b.Fatal(err)
		}
	}
}

// What is kept in another form than its type is seen as its type.
func TestSealedObject(t *testing.T) {
	def := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "x.example",
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}}}}
	def.Name = "as.x.example"
	sealed := kinds.CustomResourceDefinitions.Pack(def, nil, 1)
	for _, path := range [][]string{{"spec", "group"}, {"metadata", "name"}} {
		v := objectValue(sealed)
		for _, step := range path {
			v = v.(traits.Indexer).Get(types.String(step))
		}
		if text := v.Value(); text != "x.example" && text != "as.x.example" {
			t.Errorf("%v: %v", path, text)
		}
	}
}

// What a rule changed gets the defaults of the version that the cluster is, not those of the newest.
func TestAdoptedDefaultsAreTheVersions(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := &appsv1.StatefulSet{}
	before.SetGroupVersionKind(kinds.StatefulSets.GVK)
	for features, want := range map[*features.Set]bool{on: false, nil: true} {
		r := &admission.Request{Kind: kinds.StatefulSets, Object: before, Features: features}
		got, err := Adopt(t.Context(), r, before, before.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if has := got.(*appsv1.StatefulSet).Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil; has != want {
			t.Errorf("in 1.%d maxUnavailable is set: %v", features.Minor(), has)
		}
	}
}
