package torture

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// dear are quantities that take the library's parser from minutes to for ever.
var dear = []string{"1e-999999999", "1e999999999", "-5E-1999999999", "0." + strings.Repeat("1", 400)}

const (
	podsPath   = "/api/v1/namespaces/default/pods"
	meters     = "/apis/torture.example.com/v1/namespaces/default/meters"
	dryRun     = "?dryRun=All&fieldManager=t"
	crds       = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	victimPod  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"victim"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	meterOfAll = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"meters.torture.example.com"},
"spec":{"group":"torture.example.com","names":{"plural":"meters","kind":"Meter"},"scope":"Namespaced","versions":
[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
"properties":{"q":{"type":"string","x-kubernetes-validations":
[{"rule":"quantity(self).isLessThan(quantity('5'))"}]}}}}}]}}`
)

// dearWays are requests that hold a quantity that is dear to read, each with the code that it must get.
func dearWays(t *testing.T, q string) map[string]struct {
	method, path, typ, body string
	code                    int
} {
	t.Helper()
	limits := fmt.Sprintf(`{"limits":{"memory":%q}}`, q)
	whole := strings.Replace(victimPod, `"image":"i"`, `"image":"i","resources":`+limits, 1)
	type way = struct {
		method, path, typ, body string
		code                    int
	}
	quoted, jsonPatch := fmt.Sprintf("%q", q), "application/json-patch+json"
	merge, strategic := "application/merge-patch+json", "application/strategic-merge-patch+json"
	victim, other := podsPath+"/victim"+dryRun, podsPath+"/other"+dryRun
	hpa := fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"h","annotations":
{"autoscaling.alpha.kubernetes.io/metrics":%q}},"spec":{"maxReplicas":2,"scaleTargetRef":
{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`,
		`[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"`+q+`"}}]`)
	meter := fmt.Sprintf(`{"apiVersion":"torture.example.com/v1","kind":"Meter","metadata":{"name":"m"},"q":%q}`, q)
	added := `[{"op":"add","path":"/spec/containers/0/resources","value":` + limits + `}]`
	changed := `{"spec":{"containers":[{"name":"c","image":"i","resources":` + limits + `}]}}`
	pages := strings.Replace(whole, `{"memory":`+quoted, `{"hugepages-`+q+`":"2","memory":"1"`, 1)
	annotated := strings.Replace(victimPod, `"name":"victim"`, `"name":"other","annotations":{"a":`+quoted+`}`, 1)
	return map[string]way{
		"json":       {"POST", podsPath + dryRun, codec.JSON, whole, 400},
		"yaml":       {"POST", podsPath + dryRun, codec.YAML, whole, 400},
		"protobuf":   {"POST", podsPath + dryRun, codec.Protobuf, protoPod(t, q), 400},
		"json6902":   {"PATCH", victim, jsonPatch, added, 422},
		"merge":      {"PATCH", victim, merge, changed, 422},
		"strategic":  {"PATCH", victim, strategic, changed, 422},
		"apply":      {"PATCH", other, "application/apply-patch+yaml", strings.Replace(whole, "victim", "other", 1), 500},
		"applied":    {"PATCH", victim, "application/apply-patch+yaml", whole, 500},
		"name":       {"POST", podsPath + dryRun, codec.JSON, pages, 422},
		"number":     {"POST", podsPath + dryRun, codec.JSON, strings.Replace(whole, quoted, q, 1), 400},
		"rule":       {"POST", meters + dryRun, codec.JSON, meter, 422},
		"annotation": {"POST", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers" + dryRun, codec.JSON, hpa, 201},
		"label":      {"POST", podsPath + dryRun, codec.JSON, annotated, 201},
	}
}

// protoPod is a pod in protobuf with a limit that no quantity can be made of here: it takes the place of one as long.
func protoPod(t *testing.T, q string) string {
	t.Helper()
	stand := strings.Repeat("7", len(q))
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": apiresource.MustParse(stand)}}}}}}
	data, err := codec.MarshalProto(p)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(data), stand, q, 1)
}

// Quantities that are dear to read are refused, whatever way they come; what only looks like one is not.
func TestDearQuantities(t *testing.T) {
	x := fuzzed()
	if x.err != nil {
		t.Fatal(x.err)
	}
	x.say(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", codec.JSON, `{"metadata":{"name":"default"}}`)
	x.say(t, http.MethodPost, podsPath, codec.JSON, victimPod)
	x.say(t, http.MethodPost, crds, codec.JSON, meterOfAll)
	x.served(t, meters)
	for _, q := range dear {
		if !resource.DearQuantity(q) {
			t.Fatalf("%q is not dear", q)
		}
		for name, w := range dearWays(t, q) {
			code, text := x.say(t, w.method, w.path, w.typ, w.body)
			long := len(q) > 100 && (name == "name" || name == "protobuf" || name == "number" || name == "annotation")
			if code != w.code && !long || code == http.StatusInternalServerError && !strings.Contains(text, "quantities must match") {
				t.Errorf("%s of %.20s: %d, want %d: %.300s", name, q, code, w.code, text)
			}
		}
	}
}
