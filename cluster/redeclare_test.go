package cluster_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

// memosText is a definition whose versions each know fields of their own. The parts are its conversion and its versions.
const (
	memosText = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: memos.again.example}
spec:
  group: again.example
  scope: Namespaced
  names: {plural: memos, kind: Memo}
  conversion: %s
  versions: [%s]
`
	memoVersion = `{name: %s, served: %v, storage: %v, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object,
    properties: {%s}}}}}}`
)

// memos changes one definition, and asks for its objects.
type memos struct {
	*testing.T
	client dynamic.Interface
}

func memoVersions(list ...string) string { return strings.Join(list, ",") }

func memoSchema(name string, served, stored bool, fields ...string) string {
	for i, f := range fields {
		fields[i] = f + ": {type: string}"
	}
	return fmt.Sprintf(memoVersion, name, served, stored, strings.Join(fields, ","))
}

// declare applies the definition, and waits until it is served so.
func (m *memos) declare(conversion, versions string) {
	m.Helper()
	def := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, memosText, conversion, versions), &def.Object); err != nil {
		m.Fatal(err)
	}
	defs := m.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := defs.Apply(m.Context(), "memos.again.example", def, metav1.ApplyOptions{FieldManager: "definer", Force: true})
	if err != nil {
		m.Fatal(err)
	}
}

func (m *memos) in(version string) dynamic.ResourceInterface {
	return m.client.Resource(schema.GroupVersionResource{Group: "again.example", Version: version, Resource: "memos"}).Namespace("default")
}

// sees waits until the spec of an object is seen so in a version.
func (m *memos) sees(version, want string) {
	m.Helper()
	eventually(m.T, version+" is "+want, func(ctx context.Context) (bool, error) {
		got, err := m.in(version).Get(ctx, "m", metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not yet served
		}
		return fmt.Sprint(got.Object["spec"]) == want, nil
	})
	list, err := m.in(version).List(m.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || fmt.Sprint(list.Items[0].Object["spec"]) != want {
		m.Errorf("the list in %s: %v %v", version, list, err)
	}
}

func memo(version string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "again.example/" + version, "kind": "Memo",
		"metadata": map[string]any{"name": "m"}, "spec": spec}}
}

// What a definition says is how stored objects are read, and not what becomes of them: what one declaration prunes or converts badly is
// there for the next.
func TestDeclarationsLoseNothing(t *testing.T) {
	client, err := dynamic.NewForConfig(config(t, start(t, cluster.Config{})))
	if err != nil {
		t.Fatal(err)
	}
	m := &memos{t, client}
	const none = "{strategy: None}"
	m.declare(none, memoSchema("v1", true, true, "size", "b"))
	eventually(t, "the kind is served", func(ctx context.Context) (bool, error) {
		_, err := m.in("v1").Apply(ctx, "m", memo("v1", map[string]any{"size": "2x3", "b": "two"}), metav1.ApplyOptions{FieldManager: "first"})
		return err == nil, nil
	})
	m.sees("v1", "map[b:two size:2x3]")

	m.declare(none, memoSchema("v1", true, true, "size"))
	m.sees("v1", "map[size:2x3]")
	m.declare(none, memoSchema("v1", true, true, "size", "b"))
	m.sees("v1", "map[b:two size:2x3]")

	both := memoVersions(memoSchema("v1", true, false, "size", "b"), memoSchema("v2", true, true, "width", "height"))
	m.declare(none, both)
	m.sees("v2", "map[]")
	m.sees("v1", "map[b:two size:2x3]")

	hook := httptest.NewTLSServer(&converter{})
	defer hook.Close()
	ca, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	m.declare(fmt.Sprintf(`{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: %q, caBundle: %s}}}`,
		hook.URL+"/convert", ca), both)
	m.sees("v2", "map[height:3 width:2]")
	m.sees("v1", "map[b:two size:2x3]")
}

// An owner in a version that the definition has no more fails an apply, as of Kubernetes; one in a version that is only not served is like
// any other.
func TestApplyAfterAVersionWent(t *testing.T) {
	client, err := dynamic.NewForConfig(config(t, start(t, cluster.Config{})))
	if err != nil {
		t.Fatal(err)
	}
	m := &memos{t, client}
	const none = "{strategy: None}"
	m.declare(none, memoSchema("v1", true, true, "a", "b"))
	first := metav1.ApplyOptions{FieldManager: "first"}
	eventually(t, "the kind is served", func(ctx context.Context) (bool, error) {
		_, err := m.in("v1").Apply(ctx, "m", memo("v1", map[string]any{"a": "one"}), first)
		return err == nil, nil
	})
	v2 := memoSchema("v2", true, true, "a", "b")
	m.declare(none, memoVersions(memoSchema("v1", false, false, "a", "b"), v2))
	m.sees("v2", "map[a:one]")
	got, err := m.in("v2").Apply(t.Context(), "m", memo("v2", map[string]any{"b": "two"}), metav1.ApplyOptions{FieldManager: "second"})
	if err != nil || len(got.GetManagedFields()) != 2 {
		t.Fatalf("while the version is not served: %v, %v", err, got)
	}

	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := defs.Patch(t.Context(), "memos.again.example", types.MergePatchType, []byte(`{"status":{"storedVersions":["v2"]}}`),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	m.declare(none, v2)
	dry := first // one that succeeds before the version is gone would own the field in the other version
	dry.DryRun = []string{metav1.DryRunAll}
	eventually(t, "the version is gone", func(ctx context.Context) (bool, error) {
		_, err := m.in("v2").Apply(ctx, "m", memo("v2", map[string]any{"a": "three"}), dry)
		return err != nil && strings.Contains(err.Error(), "request to convert CR to an invalid group/version: again.example/v1"), nil
	})
	got, err = m.in("v2").Patch(t.Context(), "m", types.MergePatchType, []byte(`{"spec":{"a":"four"}}`), metav1.PatchOptions{})
	if err != nil || len(got.GetManagedFields()) != 2 {
		t.Errorf("a patch: %v, %v", err, got)
	}
}
