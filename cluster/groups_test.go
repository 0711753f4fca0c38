package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
)

// Groups register themselves, those of definitions come and go with these, and an APIService whose service is not there
// is reported and keeps no namespace.
func TestGroups(t *testing.T) {
	c := start(t, cluster.Config{})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	services := client.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"))
	defs := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	available := func(name, reason, managed string) {
		t.Helper()
		eventually(t, name+" is "+reason, func(ctx context.Context) (bool, error) {
			u, err := services.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, ignoreNotFound(err)
			}
			var svc apiregistrationv1.APIService
			data, _ := json.Marshal(u)
			if err := json.Unmarshal(data, &svc); err != nil {
				return false, err
			}
			for _, cond := range svc.Status.Conditions {
				if cond.Type == apiregistrationv1.Available && cond.Reason == reason {
					return svc.Labels["kube-aggregator.kubernetes.io/automanaged"] == managed, nil
				}
			}
			return false, nil
		})
	}
	available("v1.apps", "Local", "onstart")
	def := &unstructured.Unstructured{}
	text := strings.Replace(fmt.Sprintf(tabsText, "https://127.0.0.1:1/", `""`), "conv.example", "groups.example", -1)
	if err := yaml.Unmarshal([]byte(text), &def.Object); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(def.Object, "spec", "conversion")
	if _, err := defs.Create(t.Context(), def, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available("v1.groups.example", "Local", "true")
	available("v2.groups.example", "Local", "true")
	closing(t, client, cs.Discovery(), defs)
	eventually(t, "v2.groups.example is gone", func(ctx context.Context) (bool, error) {
		_, err := services.Get(ctx, "v2.groups.example", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if _, err := services.Create(t.Context(), deadService(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available("v1.dead.example", "ServiceNotFound", "")
	ns := namespace(t, cs)
	if _, err := cs.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("c"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := cs.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	told := map[string]bool{}
	eventually(t, "events tell of it", func(ctx context.Context) (bool, error) {
		list, err := cs.CoreV1().Events(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, e := range list.Items {
			told[e.InvolvedObject.Kind+" "+e.Reason] = true
		}
		return told["APIService ServiceNotFound"] && told["Namespace DiscoveryFailed"], nil
	})
}

// A server alone, whose loops run elsewhere or nowhere, says itself whether others answer for groups.
func TestGroupsOfAServerAlone(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true})
	client, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	services := client.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"))
	if _, err := services.Create(t.Context(), deadService(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server that is not there is told", func(ctx context.Context) (bool, error) {
		u, err := services.Get(ctx, "v1.dead.example", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return strings.Contains(fmt.Sprint(u.Object["status"]), "reason:ServiceNotFound"), nil
	})
}

func deadService() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.dead.example"}, "spec": map[string]any{"group": "dead.example", "version": "v1",
			"groupPriorityMinimum": int64(100), "versionPriority": int64(10), "service": map[string]any{"namespace": "default", "name": "nobody"}}}}
}

// closing deletes a definition with an object that waits: discovery shows what may still be done, and watches end.
func closing(t *testing.T, client dynamic.Interface, disco discovery.DiscoveryInterface, defs dynamic.ResourceInterface) {
	t.Helper()
	ctx := t.Context()
	tabs := client.Resource(schema.GroupVersionResource{Group: "groups.example", Version: "v1", Resource: "tabs"}).Namespace("default")
	held := tab("v1", "held", nil)
	held.SetAPIVersion("groups.example/v1")
	held.SetFinalizers([]string{"groups.example/x"})
	if _, err := tabs.Create(ctx, held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := tabs.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	idle, err := client.Resource(schema.GroupVersionResource{Group: "groups.example", Version: "v2",
		Resource: "tabs"}).Namespace("elsewhere").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Stop()
	if err := defs.Delete(ctx, "tabs.groups.example", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "discovery shows that the kind goes", func(context.Context) (bool, error) {
		list, err := disco.ServerResourcesForGroupVersion("groups.example/v1")
		if err != nil {
			return false, err
		}
		return fmt.Sprint(list.APIResources[0].Verbs) == "[delete deletecollection get list watch]", nil
	})
	if _, err := tabs.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface{ ResultChan() <-chan apiwatch.Event }{watch, idle} {
		for range w.ResultChan() { // until the server closes it
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
