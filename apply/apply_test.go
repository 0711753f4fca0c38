package apply

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var (
	configMaps = &resource.Def[*corev1.ConfigMap]{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Plural: "configmaps", Namespaced: true}
	pods       = &resource.Def[*corev1.Pod]{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods", Namespaced: true, Status: true}
	deploys    = &resource.Def[*appsv1.Deployment]{GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments",
		Namespaced: true, Status: true, Quirks: resource.Quirks{StatusResets: []string{"metadata.labels"}},
		Scale: &resource.Scaled[*appsv1.Deployment]{
			Get: func(d *appsv1.Deployment) resource.Scale {
				if d.Spec.Replicas == nil {
					return resource.Scale{Replicas: 1}
				}
				return resource.Scale{Replicas: *d.Spec.Replicas}
			},
			Set: func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n }}}
)

// a history is one object that is written to, at one write a minute.
type history struct {
	t    *testing.T
	tr   *Tracker
	kind resource.Kind
	obj  resource.Object
	now  time.Time

	loses bool
}

func begin(t *testing.T, k resource.Kind) *history {
	return &history{t: t, tr: NewTracker(), kind: k, now: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (h *history) write(manager, sub string) Write {
	h.now = h.now.Add(time.Minute)
	return Write{Kind: h.kind, GVK: h.kind.Info().GVK, Manager: manager, Sub: sub, Now: h.now, Loses: h.loses}
}

// update changes the object by a merge patch, as manager.
func (h *history) update(manager, sub, patch string) {
	h.t.Helper()
	obj := h.kind.New(h.kind.Info().GVK)
	if h.obj != nil {
		obj = resource.Clone(h.obj)
	}
	doc, _ := json.Marshal(obj)
	doc, err := MergePatch(doc, []byte(patch), true)
	if err != nil {
		h.t.Fatal(err)
	}
	obj = h.kind.New(h.kind.Info().GVK)
	if err := json.Unmarshal(doc, obj); err != nil {
		h.t.Fatal(err)
	}
	if err := h.tr.Update(h.write(manager, sub), h.obj, obj); err != nil {
		h.t.Fatal(err)
	}
	obj.SetUID("u") // the object exists now
	h.obj = obj
}

func (h *history) apply(manager, sub, patch string, force bool) error {
	h.t.Helper()
	before, _ := json.Marshal(h.obj)
	out, err := readAndApply(h.tr, h.write(manager, sub), h.obj, patch, force)
	if after, _ := json.Marshal(h.obj); string(after) != string(before) {
		h.t.Errorf("Apply changed the old object:\n%s\n%s", before, after)
	}
	if err == nil {
		out.SetUID("u")
		h.obj = out
	}
	return err
}

func readAndApply(t *Tracker, w Write, old resource.Object, patch string, force bool) (resource.Object, error) {
	c, err := Read([]byte(patch))
	if err != nil {
		return nil, err
	}
	return t.Apply(w, old, c, force)
}

// owners renders managedFields, one entry a line: manager operation/subresource minute fields.
func (h *history) owners() string {
	var b strings.Builder
	for _, e := range h.obj.GetManagedFields() {
		at := "-"
		if e.Time != nil {
			at = fmt.Sprint(e.Time.Sub(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)).Minutes())
		}
		fmt.Fprintf(&b, "%s %s/%s@%s %s\n", e.Manager, e.Operation, e.Subresource, at, e.FieldsV1.GetRawBytes())
	}
	return b.String()
}

func (h *history) want(lines ...string) {
	h.t.Helper()
	want := strings.Join(lines, "\n") + "\n"
	if len(lines) == 0 {
		want = ""
	}
	if got := h.owners(); got != want {
		h.t.Errorf("owners:\n%swant:\n%s", got, want)
	}
}

func (h *history) conflict(err error, causes ...string) {
	h.t.Helper()
	if !apierrors.IsConflict(err) {
		h.t.Fatalf("got %v, want a conflict", err)
	}
	st := err.(apierrors.APIStatus).Status()
	for i, c := range st.Details.Causes {
		got := fmt.Sprintf("%s %s %s", c.Type, c.Field, c.Message)
		if i >= len(causes) || got != causes[i] {
			h.t.Errorf("cause %d: %s, want %q", i, got, causes)
		}
	}
}

const configMap = `"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}`

func TestUpdateThenApply(t *testing.T) {
	h := begin(t, configMaps)
	h.update("kubectl-create", "", `{`+configMap+`,"data":{"k":"v","l":"w"}}`)
	h.want(`kubectl-create Update/@1 {"f:data":{".":{},"f:k":{},"f:l":{}}}`)
	if err := h.apply("m", "", `{`+configMap+`,"data":{"k":"v"}}`, false); err != nil {
		t.Fatal(err)
	}
	h.want(`m Apply/@- {"f:data":{"f:k":{}}}`, `kubectl-create Update/@1 {"f:data":{".":{},"f:k":{},"f:l":{}}}`)
	err := h.apply("m", "", `{`+configMap+`,"data":{"k":"V"}}`, false)
	h.conflict(err, `FieldManagerConflict .data.k conflict with "kubectl-create" using v1`)
	if want := `Apply failed with 1 conflict: conflict with "kubectl-create" using v1: .data.k`; err.Error() != want {
		t.Errorf("message %q, want %q", err, want)
	}
	if err := h.apply("m", "", `{`+configMap+`,"data":{"k":"V"}}`, true); err != nil {
		t.Fatal(err)
	}
	h.want(`m Apply/@4 {"f:data":{"f:k":{}}}`, `kubectl-create Update/@1 {"f:data":{".":{},"f:l":{}}}`)
	h.update("kubectl-create", "", `{"data":{"k":"v2","l":null}}`)
	h.want(`kubectl-create Update/@5 {"f:data":{".":{},"f:k":{}}}`)
	h.update("x", "", `{"metadata":{"managedFields":[{}]}}`)
	h.want()
	err = h.apply("m", "", `{`+configMap+`,"data":{"k":"V"}}`, false)
	h.conflict(err, `FieldManagerConflict .data.k conflict with "before-first-apply" using v1`)
}

func TestSetsAndMaps(t *testing.T) {
	h := begin(t, configMaps)
	steps := []struct{ manager, body, data, finalizers string }{
		{"a", `"metadata":{"name":"a","finalizers":["e.example/a"]},"data":{"x":"1","y":"2"}`, `{"x":"1","y":"2"}`, "[e.example/a]"},
		{"b", `"metadata":{"name":"a","finalizers":["e.example/b"]},"data":{"y":"2","z":"3"}`, `{"x":"1","y":"2","z":"3"}`,
			"[e.example/a e.example/b]"},
		{"a", `"metadata":{"name":"a"},"data":{"x":"1"}`, `{"x":"1","y":"2","z":"3"}`, "[e.example/b]"},
		{"b", `"metadata":{"name":"a"},"data":{}`, `{"x":"1"}`, "[]"},
	}
	for i, s := range steps {
		t.Run(s.manager, func(t *testing.T) {
			if err := h.apply(s.manager, "", `{"apiVersion":"v1","kind":"ConfigMap",`+s.body+`}`, false); err != nil {
				t.Fatal(err)
			}
			data, _ := json.Marshal(h.obj.(*corev1.ConfigMap).Data)
			if string(data) != s.data || fmt.Sprint(h.obj.GetFinalizers()) != s.finalizers {
				t.Errorf("step %d: data %s, finalizers %s", i, data, h.obj.GetFinalizers())
			}
		})
	}
	h.want(`a Apply/@3 {"f:data":{"f:x":{}}}`, `b Apply/@4 {"f:data":{}}`)
}

func TestApplyErrors(t *testing.T) {
	for _, c := range []struct{ name, patch, want string }{
		{"nonsense", `{`, "400 BadRequest"},
		{"a list", `[]`, "400 BadRequest"},
		{"no type", `{"metadata":{"name":"a"}}`, "400 BadRequest invalid object type: /, Kind="},
		{"wrong kind", `{"apiVersion":"v1","kind":"Secret"}`, "400 BadRequest invalid object type: /v1, Kind=Secret"},
		{"wrong version", `{"apiVersion":"v2","kind":"ConfigMap"}`, "400 BadRequest invalid object type: /v2, Kind=ConfigMap"},
		{"managedFields", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[]}}`,
			"400 BadRequest metadata.managedFields must be nil"},
		{"unknown field", "apiVersion: v1\nkind: ConfigMap\nbogus: 1",
			"500  failed to create typed patch object (/; /v1, Kind=ConfigMap): .bogus: field not declared in schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := begin(t, configMaps).apply("m", "", c.patch, false)
			if err == nil {
				t.Fatal("no error")
			}
			st := err.(apierrors.APIStatus).Status()
			if got := fmt.Sprintf("%d %s %s", st.Code, st.Reason, st.Message); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

const deployment = `"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,
"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[
{"name":"c","image":"i","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}]}}}`

func TestScale(t *testing.T) {
	h := begin(t, deploys)
	if err := h.apply("owner", "", `{`+deployment+`}`, false); err != nil {
		t.Fatal(err)
	}
	h.update("hpa", "scale", `{"spec":{"replicas":7}}`)
	rest := `{"f:spec":{"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:containers":` +
		`{"k:{\"name\":\"c\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},` +
		`"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}`
	h.want(`owner Apply/@1 `+rest, `hpa Update/scale@- {"f:spec":{"f:replicas":{}}}`)
	h.conflict(h.apply("owner", "", `{`+deployment+`}`, false),
		`FieldManagerConflict .spec.replicas conflict with "hpa" with subresource "scale" using apps/v1`)
	scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":9}}`
	h.conflict(h.apply("scaler", "scale", scale, false),
		`FieldManagerConflict .spec.replicas conflict with "hpa" with subresource "scale" using autoscaling/v1`)
	if err := h.apply("scaler", "scale", scale, true); err != nil {
		t.Fatal(err)
	}
	h.want(`scaler Apply/scale@- {"f:spec":{"f:replicas":{}}}`, `owner Apply/@1 `+rest)
	if n := *h.obj.(*appsv1.Deployment).Spec.Replicas; n != 9 {
		t.Errorf("%d replicas", n)
	}
}

func TestResets(t *testing.T) {
	h := begin(t, deploys)
	h.update("a", "", `{"metadata":{"name":"d","labels":{"l":"1"}},"spec":{"paused":true},"status":{"replicas":3}}`)
	h.want(`a Update/@1 {"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{"f:paused":{}}}`)
	h.update("b", "status", `{"metadata":{"labels":{"l":"2"},"annotations":{"x":"y"}},"spec":{"paused":false},"status":{"replicas":4}}`)
	h.want(`a Update/@1 {"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{"f:paused":{}}}`,
		`b Update/status@2 {"f:metadata":{"f:annotations":{".":{},"f:x":{}}},"f:status":{"f:replicas":{}}}`)
}

// TestNoKeys: of a list in which nothing tells items apart nobody keeps books, so that they stay as they were, until somebody asks
// for none. What came with the object does not count.
func TestNoKeys(t *testing.T) {
	accounts := &resource.Def[*corev1.ServiceAccount]{GVK: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Plural: "serviceaccounts"}
	h := begin(t, accounts)
	h.update("a", "", `{"secrets":[{"name":"s"}]}`)
	was := h.owners()
	for _, sent := range []string{`{"secrets":[{"kind":"k"}]}`, `{"secrets":[{"name":"t"}]}`, `{"metadata":{"managedFields":[{"manager":"x",` +
		`"operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:secrets":{}}}]},"secrets":[{"kind":"k"}]}`} {
		h.update("b", "", `{"secrets":[{"kind":"k"}]}`)
		h.update("b", "", sent)
		if got := h.owners(); got != was || was == "" {
			t.Errorf("%s: owners:\n%swant:\n%s", sent, got, was)
		}
	}
	h.update("b", "", `{"metadata":{"managedFields":[{}]},"secrets":[{"kind":"k"}]}`)
	h.want()
}

// TestLoses: up to 1.36 all owners are forgotten then.
func TestLoses(t *testing.T) {
	accounts := &resource.Def[*corev1.ServiceAccount]{GVK: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Plural: "serviceaccounts"}
	h := begin(t, accounts)
	h.loses = true
	h.update("a", "", `{"secrets":[{"name":"s"}]}`)
	h.update("b", "", `{"secrets":[{"kind":"k"}]}`)
	h.want()
}

// TestParts: who writes a pod through ephemeralcontainers or resize owns all that was sent, taken or not.
func TestParts(t *testing.T) {
	for _, part := range []string{"ephemeralcontainers", "resize"} {
		h := begin(t, core.Pods)
		h.update("a", "", `{"metadata":{"labels":{"a":"b"}}}`)
		h.update("a", part, `{"metadata":{"labels":{"c":"d"}}}`)
		if got := h.owners(); !strings.Contains(got, "a Update/"+part) {
			t.Errorf("%s: %s", part, got)
		}
	}
}

func TestNoChangeKeepsTimes(t *testing.T) {
	h := begin(t, configMaps)
	h.update("a", "", `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	was := h.owners()
	h.update("a", "", `{}`)
	if got := h.owners(); got != was {
		t.Errorf("an update without effect changed the owners:\n%s%s", was, got)
	}
	h.update("a", "", `{"data":{"k":"w"}}`)
	h.want(`a Update/@3 {"f:data":{".":{},"f:k":{}}}`)
	// Only the times differ when a manager applies what it owns, and the same value.
	for range 2 {
		if err := h.apply("m", "", `{`+configMap+`,"data":{"k":"w"}}`, false); err != nil {
			t.Fatal(err)
		}
		h.want(`m Apply/@- {"f:data":{"f:k":{}}}`, `a Update/@3 {"f:data":{".":{},"f:k":{}}}`)
	}
}

func TestManyManagers(t *testing.T) {
	h := begin(t, configMaps)
	for i := range 12 {
		h.update(fmt.Sprintf("m%02d", i), "", fmt.Sprintf(`{"metadata":{"name":"a"},"data":{"k%02d":"v"}}`, i))
	}
	got := h.obj.GetManagedFields()
	if len(got) != 10 {
		t.Errorf("%d managers", len(got))
	}
	if want := `ancient-changes Update/@3 {"f:data":{".":{},"f:k00":{},"f:k01":{},"f:k02":{}}}`; !strings.HasPrefix(h.owners(), want) {
		t.Errorf("owners:\n%swant first:\n%s", h.owners(), want)
	}
}

func TestFieldsFromClients(t *testing.T) {
	for _, c := range []struct{ name, fields, want string }{
		{"invalid", `[{"manager":"x"}]`, `a Update/@1 {"f:data":{".":{},"f:k":{}}}`},
		{"none", `null`, `a Update/@1 {"f:data":{".":{},"f:k":{}}}`},
		{"reset by nothing", `[]`, ""},
		{"given", `[{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]`,
			`z Update/@- {"f:data":{"f:k":{}}}`},
		{"given with a time",
			`[{"manager":"z","operation":"Update","apiVersion":"v1","time":"2020-01-01T00:00:30Z","fieldsType":"FieldsV1",` +
				`"fieldsV1":{"f:data":{"f:k":{}}}}]`,
			`z Update/@0.5 {"f:data":{"f:k":{}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := begin(t, configMaps)
			h.update("a", "", `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
			h.update("b", "", `{"metadata":{"managedFields":`+c.fields+`}}`)
			if got := strings.TrimSpace(h.owners()); got != c.want {
				t.Errorf("owners %q, want %q", got, c.want)
			}
		})
	}
}
