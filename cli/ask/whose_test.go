package ask

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/resource/codec"
)

// A fake answers paths with texts; "403" is a refusal, and what it does not have is not found.
type fake map[string]string

func (f fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, ok := f[r.URL.Path]
	code := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[ok]
	if text == "403" || !ok {
		if ok {
			code = http.StatusForbidden
		}
		reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound"}[code]
		text = fmt.Sprintf(`{"kind":"Status","status":"Failure","reason":%q,"message":"no %s","code":%d}`, reason, r.URL.Path, code)
	}
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, text)
}

func (f fake) asker(t *testing.T) *Asker {
	t.Helper()
	far := httptest.NewServer(f)
	t.Cleanup(far.Close)
	a, err := New(&rest.Config{Host: far.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	a.Home = "default"
	return a
}

// nodes is a list of one node with an agent of a version.
func nodes(t *testing.T, version string) string {
	t.Helper()
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: version},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	data, err := codec.MarshalProto(&corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{n}})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const (
	stock = `{"gitVersion":"v1.36.3"}`
	own   = `{"gitVersion":"v1.37.2+kloop.0.1.0"}`
	page  = `<!doctype html><title>Log in</title>`
)

// The version of a server, or what it has, tells whether it is a kloop that explains nothing; where neither can be seen, that is said.
func TestWhose(t *testing.T) {
	groups := `{"kind":"APIGroupDiscoveryList","items":[]}`
	for _, tt := range []struct {
		name string
		fake fake
		note string // "": none
	}{
		{"stock", fake{"/version": stock}, ""},
		{"a vendor's", fake{"/version": `{"gitVersion":"v1.36.3-kloopers"}`}, ""},
		{"kloop", fake{"/version": own}, "--convergence=false"},
		{"kloop that keeps its version", fake{"/version": "403", "/api/v1/nodes": nodes(t, "v1.37.2+kloop.0.1.0")}, "--convergence=false"},
		{"kloop behind a proxy with a version", fake{"/version": stock, "/api/v1/nodes": nodes(t, "v1.37.2+kloop.0.1.0")}, "--convergence=false"},
		{"stock that keeps its version", fake{"/version": "403", "/api/v1/nodes": nodes(t, "v1.36.3")}, "can't be told: no /version"},
		{"a page for a version", fake{"/version": page}, "log in to what stands before"},
		{"few rights", fake{"/version": stock, Explained: "403", Within("", "gaps"): "403"}, ""},
		{"few rights, and no discovery", fake{"/version": stock, Explained: "403", Within("", "gaps"): "403", "/apis": "403", "/api": "403"},
			"whether somebody explains this cluster can't be told"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake{"/api": `{"kind":"APIVersions","versions":[]}`, "/apis": groups}
			maps.Copy(f, tt.fake)
			out, err := f.asker(t).All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(out.Notes, "\n"); tt.note == "" && got != "" || !strings.Contains(got, tt.note) {
				t.Errorf("it is told: %q, want %q", got, tt.note)
			}
		})
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "loops"}, "")
	for version, want := range map[string]string{stock: "it is no kloop", own: "--convergence=false", "403": "can't be told",
		page: "can't be told", "{}": "can't be told"} {
		t.Run(version, func(t *testing.T) {
			if err := (fake{"/version": version}).asker(t).Unexplained(t.Context(), gone); !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", version, err, want)
			}
		})
	}
	if _, err := (fake{Within("", "gaps"): page}).asker(t).All(t.Context()); err == nil || !strings.Contains(err.Error(), "log in") {
		t.Errorf("a page in place of an answer: %v", err)
	}
}

// Who may read gaps in one namespace alone gets what the server explains there, and hears that the rest was not seen.
func TestOneNamespace(t *testing.T) {
	f := fake{Within("", "gaps"): "403", Within("default", "gaps"): `{"items":[{"metadata":{"name":"pods.a","namespace":"default"}}]}`,
		Within("default", "fights"): `{"items":[]}`}
	out, err := f.asker(t).All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if unseen := strings.Join(out.Unseen, "\n"); len(out.Items) != 1 || out.where != "default" || len(out.Notes) != 0 ||
		unseen != "other namespaces than default: no "+Within("", "gaps") {
		t.Errorf("%d gaps in %q; notes %q; not seen: %q", len(out.Items), out.where, out.Notes, unseen)
	}
}

// Who asks for one namespace of a server that does not explain itself does not hear of others that were not seen; who asks for all does.
func TestElsewhere(t *testing.T) {
	f := fake{"/api": `{"kind":"APIVersions","versions":[]}`, "/apis": `{"kind":"APIGroupDiscoveryList","items":[]}`, "/version": stock,
		Explained: "403", Within("", "gaps"): "403", Within("web", "gaps"): "403",
		"/api/v1/nodes": "403", "/api/v1/pods": "403", "/api/v1/namespaces/web/pods": string(podList(t))}
	for ns, outside := range map[string]bool{"": true, "web": false} {
		t.Run("in "+ns, func(t *testing.T) {
			a := f.asker(t)
			a.Home, a.NS = "web", ns
			out, err := a.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			unseen := strings.Join(out.Unseen, "\n")
			if strings.Contains(unseen, "outside namespace web") != outside || !strings.Contains(unseen, "nodes: you may not list them") {
				t.Errorf("not seen: %q", unseen)
			}
		})
	}
}

// podList is an empty list.
func podList(t *testing.T) []byte {
	t.Helper()
	data, err := codec.MarshalProto(&corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Several groups have kinds of one name: what kubectl takes is taken, or the one that has the object, and the others are named.
func TestSameNames(t *testing.T) {
	group := func(name, version string) string {
		return fmt.Sprintf(`{"metadata":{"name":%[1]q},"versions":[{"version":%[2]q,"resources":[{"resource":"clusters",`+
			`"singularResource":"cluster","scope":"Namespaced","verbs":["list"],"responseKind":{"group":%[1]q,`+
			`"version":%[2]q,"kind":"Cluster"}}]}]}`,
			name, version)
	}
	const pg, capi = "/apis/postgresql.cnpg.io/v1/namespaces/default/clusters/", "/apis/cluster.x-k8s.io/v1beta1/namespaces/default/clusters/"
	object := `{"metadata":{"name":"x","namespace":"default"}}`
	f := fake{"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": `{"resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`,
		"/apis": `{"kind":"APIGroupDiscoveryList","items":[` + group("cluster.x-k8s.io", "v1beta1") + "," +
			group("postgresql.cnpg.io", "v1") + `]}`,
		"/version": stock, pg + "db": object, capi + "prod": object, pg + "both": object, capi + "both": object}
	a := f.asker(t)
	for word, want := range map[string]string{"cluster": "cluster.x-k8s.io", "Cluster": "cluster.x-k8s.io",
		"clusters.postgresql.cnpg.io": "postgresql.cnpg.io",
		"cluster.postgresql.cnpg.io":  "postgresql.cnpg.io", "clusters.v1.postgresql.cnpg.io": "postgresql.cnpg.io",
		"cluster.postgresql": "postgresql.cnpg.io", "pods": "", "pod.v1.": ""} {
		t.Run(word, func(t *testing.T) {
			r, err := a.Resolve(t.Context(), word)
			if err != nil || r.Group != want {
				t.Errorf("%s is %+v, %v", word, r, err)
			}
		})
	}
	for name, want := range map[string]string{
		"both": "clusters.cluster.x-k8s.io is meant here; others that have the name: clusters.postgresql.cnpg.io/both",
		"prod": "clusters.cluster.x-k8s.io is meant", "db": "clusters.postgresql.cnpg.io is meant", "gone": "clusters.postgresql.cnpg.io/gone"} {
		t.Run(name, func(t *testing.T) {
			out, err := a.One(t.Context(), "cluster", name)
			told := fmt.Sprint(err)
			if out != nil {
				told += strings.Join(out.Notes, "\n")
			}
			if !strings.Contains(told, want) {
				t.Errorf("cluster/%s: %s", name, told)
			}
		})
	}
}
