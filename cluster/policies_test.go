package cluster_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

const policyDocs = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small-databases}
spec:
  paramKind: {apiVersion: shop.example/v1, kind: Limit}
  matchConstraints: {resourceRules: [{apiGroups: [shop.example], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [databases]}]}
  variables: [{name: size, expression: object.spec.size}]
  validations: [{expression: variables.size <= params.spec.size, messageExpression: "'at most ' + string(params.spec.size)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small-databases}
spec: {policyName: small-databases, validationActions: [Deny], paramRef: {name: limit, parameterNotFoundAction: Deny}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments/scale]}]}
  validations: [{expression: "object.kind == 'Scale' && object.spec.replicas < 5", reason: Forbidden}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas}
spec: {policyName: few-replicas, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kept}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [DELETE, CREATE], resources: [configmaps]}]}
  validations:
  - {expression: "request.operation != 'DELETE' || !('keep' in oldObject.metadata.labels)", message: it is kept}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kept}
spec: {policyName: kept, validationActions: [Warn], matchResources: {objectSelector: {matchExpressions: [{key: keep, operator: Exists}]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: marked}
spec:
  reinvocationPolicy: IfNeeded
  matchConstraints: {resourceRules: [{apiGroups: [shop.example], apiVersions: [v1], operations: [CREATE], resources: [databases]}]}
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{owner: request.userInfo.username}}"}}
  - {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels',
        value: {'marked': namespaceObject.metadata.name}}, JSONPatch{op: 'add', path: '/spec/unknown', value: 1}]"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: marked}
spec: {policyName: marked}
`

// definitionOf declares a kind with a spec of the given properties.
func definitionOf(plural, kind, properties string) string {
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ` + plural +
		`.shop.example}, spec: {group: shop.example, scope: Namespaced,
names: {plural: ` + plural + `, kind: ` + kind +
		`}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, ` +
		`properties: ` + properties + `}}}}}]}}`
}

// A shop is a cluster with policies about databases.
type shop struct {
	t   *testing.T
	dyn dynamic.Interface
}

var policyPlurals = map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies",
	"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
	"CustomResourceDefinition":         "customresourcedefinitions", "Database": "databases", "Limit": "limits"}

func (s *shop) create(doc string) (*unstructured.Unstructured, error) {
	s.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		s.t.Fatal(err)
	}
	gvr := u.GroupVersionKind().GroupVersion().WithResource(policyPlurals[u.GetKind()])
	if ns := u.GetNamespace(); ns != "" {
		return s.dyn.Resource(gvr).Namespace(ns).Create(s.t.Context(), u, metav1.CreateOptions{})
	}
	return s.dyn.Resource(gvr).Create(s.t.Context(), u, metav1.CreateOptions{})
}

func (s *shop) must(docs string) {
	s.t.Helper()
	for doc := range strings.SplitSeq(docs, "\n---\n") {
		if _, err := s.create(doc); err != nil {
			s.t.Fatal(err)
		}
	}
}

// warnings collects what the server warns of.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// TestPolicies is policies about custom resources with custom resources for parameters, about subresources and deletions.
func TestPolicies(t *testing.T) {
	c := start(t, cluster.Config{})
	cfg, warned := config(t, c), &warnings{}
	cfg.WarningHandler = rest.WarningHandler(warned)
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, cs := &shop{t, dyn}, clientset(t, cfg)
	s.must(definitionOf("databases", "Database", "{size: {type: integer}, owner: {type: string}}"))
	s.must(definitionOf("limits", "Limit", "{size: {type: integer}}"))
	s.must(strings.TrimSpace(policyDocs))
	databases := schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "databases"}
	for _, plural := range []string{"databases", "limits"} {
		eventually(t, plural+" are served", func(ctx context.Context) (bool, error) {
			_, err := dyn.Resource(databases.GroupVersion().WithResource(plural)).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
	}
	database := func(name string, size string) (*unstructured.Unstructured, error) {
		return s.create("{apiVersion: shop.example/v1, kind: Database, metadata: {name: " + name +
			", namespace: default}, spec: {size: " + size + "}}")
	}
	if _, err := database("early", "1"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "no params found") {
		t.Errorf("without parameters: %v", err)
	}
	s.must("{apiVersion: shop.example/v1, kind: Limit, metadata: {name: limit, namespace: default}, spec: {size: 3}}")
	if _, err := database("big", "4"); !apierrors.IsInvalid(err) ||
		!strings.HasSuffix(err.Error(), "'small-databases' with binding 'small-databases' denied request: at most 3") {
		t.Errorf("too big: %v", err)
	}
	got, err := database("fine", "3")
	if err != nil {
		t.Fatal(err)
	}
	spec, _, _ := unstructured.NestedMap(got.Object, "spec")
	if got.GetLabels()["marked"] != "default" || spec["owner"] != "kubernetes-admin" || spec["unknown"] != nil {
		t.Errorf("changed to labels %v, spec %v", got.GetLabels(), spec)
	}
	if f := got.GetManagedFields(); len(f) != 1 || strings.Contains(f[0].FieldsV1.String(), "owner") {
		t.Errorf("owners %v", f)
	}
	rescaled(t, cs.AppsV1().Deployments("default").UpdateScale, func(d *appsv1.Deployment) error {
		_, err := cs.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{})
		return err
	})
	kept := configMap("kept")
	kept.Labels = map[string]string{"keep": ""}
	if _, err := cs.CoreV1().ConfigMaps("default").Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().ConfigMaps("default").Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	warned.mu.Lock()
	defer warned.mu.Unlock()
	if want := "Validation failed for ValidatingAdmissionPolicy 'kept' with binding 'kept': it is kept"; len(warned.list) != 1 ||
		warned.list[0] != want {
		t.Errorf("warned %q", warned.list)
	}
}

// rescaled scales a Deployment: a policy looks at the Scale.
func rescaled(t *testing.T, scale func(context.Context, string, *autoscalingv1.Scale, metav1.UpdateOptions) (*autoscalingv1.Scale,
	error), create func(*appsv1.Deployment) error) {
	t.Helper()
	labels := map[string]string{"a": "b"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	if err := create(d); err != nil {
		t.Fatal(err)
	}
	for replicas, ok := range map[int32]bool{3: true, 5: false} {
		_, err := scale(t.Context(), "d", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}, metav1.UpdateOptions{})
		if ok != (err == nil) || !ok && !apierrors.IsForbidden(err) {
			t.Errorf("scale to %d: %v", replicas, err)
		}
	}
}
