package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kloop-dev/kloop/cluster"
)

// TestClients uses one cluster with everything that client-go has.
func TestClients(t *testing.T) {
	c := start(t, cluster.Config{SimNodes: 2})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	proto := rest.CopyConfig(cfg)
	proto.ContentType, proto.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	tests := []struct {
		name string
		run  func(t *testing.T, cfg *rest.Config, cs *kubernetes.Clientset)
	}{
		{"crud", crud}, {"informers", informed}, {"dynamic", dynamically}, {"discovery", discovered}, {"apply", applied},
		{"patch", patched}, {"watch", watched}, {"pages", paged}, {"dry run and validation", dryly}, {"users", users},
		{"election", elected}, {"scale", scaled}, {"eviction", evicted}, {"shapes", shaped}, {"deletion", deleted}, {"events", recorded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, cfg, cs) })
	}
	t.Run("crud in protobuf", func(t *testing.T) { crud(t, proto, clientset(t, proto)) })
	t.Run("informers in protobuf", func(t *testing.T) { informed(t, proto, clientset(t, proto)) })
}

// namespace makes one for a test and waits for what pods need.
func namespace(t *testing.T, cs *kubernetes.Clientset) string {
	t.Helper()
	ns, err := cs.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "service account", func(ctx context.Context) (bool, error) {
		_, err := cs.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	return ns.Name
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func crud(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, cms := t.Context(), cs.CoreV1().ConfigMaps(namespace(t, cs))
	made := must[*corev1.ConfigMap](t)(cms.Create(ctx, configMap("a"), metav1.CreateOptions{}))
	if _, err := cms.Create(ctx, configMap("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create again: %v", err)
	}
	next := made.DeepCopy()
	next.Data["k"] = "w"
	after := must[*corev1.ConfigMap](t)(cms.Update(ctx, next, metav1.UpdateOptions{}))
	if _, err := cms.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update: %v", err)
	}
	same := must[*corev1.ConfigMap](t)(cms.Update(ctx, after, metav1.UpdateOptions{}))
	if same.ResourceVersion != after.ResourceVersion {
		t.Error("an update that changes nothing has made a revision")
	}
	uid := types.UID("other")
	err := cms.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if !apierrors.IsConflict(err) {
		t.Errorf("delete of another uid: %v", err)
	}
	if err := cms.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := cms.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get what is gone: %v", err)
	}
}

func informed(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ns := namespace(t, cs)
	cms := cs.CoreV1().ConfigMaps(ns)
	must[*corev1.ConfigMap](t)(cms.Create(t.Context(), configMap("before"), metav1.CreateOptions{}))
	f := informers.NewSharedInformerFactoryWithOptions(cs, 0, informers.WithNamespace(ns))
	lister := f.Core().V1().ConfigMaps().Lister().ConfigMaps(ns)
	f.Core().V1().Pods().Informer()
	f.Apps().V1().Deployments().Informer()
	f.Discovery().V1().EndpointSlices().Informer()
	f.Start(t.Context().Done())
	for kind, ok := range f.WaitForCacheSync(t.Context().Done()) {
		if !ok {
			t.Fatalf("%v never synced", kind)
		}
	}
	if _, err := lister.Get("before"); err != nil {
		t.Errorf("synced without what was there: %v", err)
	}
	must[*corev1.ConfigMap](t)(cms.Create(t.Context(), configMap("after"), metav1.CreateOptions{}))
	eventually(t, "see the new object", func(context.Context) (bool, error) { _, err := lister.Get("after"); return err == nil, nil })
	if err := cms.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "see it go", func(context.Context) (bool, error) {
		_, err := lister.Get("before")
		return apierrors.IsNotFound(err), nil
	})
	if all, err := lister.List(labels.Everything()); err != nil || len(all) < 1 {
		t.Errorf("list: %v, %v", all, err)
	}
}

func dynamically(t *testing.T, cfg *rest.Config, cs *kubernetes.Clientset) {
	dyn := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(cfg))
	res := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace(t, cs))
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "d"}, "data": map[string]any{"k": "v"}}}
	made := must[*unstructured.Unstructured](t)(res.Create(t.Context(), obj, metav1.CreateOptions{}))
	list := must[*unstructured.UnstructuredList](t)(res.List(t.Context(),
		metav1.ListOptions{LabelSelector: "!none", FieldSelector: "metadata.name=d"}))
	if len(list.Items) != 1 || list.Items[0].GetUID() != made.GetUID() {
		t.Errorf("list: %v", list.Items)
	}
}

func discovered(t *testing.T, cfg *rest.Config, _ *kubernetes.Clientset) {
	d := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(cfg))
	m := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	mapping, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil || mapping.Resource.Resource != "deployments" {
		t.Errorf("mapping: %v, %v", mapping, err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil || len(lists) < 20 {
		t.Errorf("%d lists, %v", len(lists), err)
	}
	v, err := d.ServerVersion()
	if err != nil || v.Major != "1" || v.Minor != "37" {
		t.Errorf("version: %v, %v", v, err)
	}
	if doc, err := d.OpenAPISchema(); err != nil || len(doc.Definitions.AdditionalProperties) < 100 {
		t.Errorf("OpenAPI v2: %v", err)
	}
	if paths, err := d.OpenAPIV3().Paths(); err != nil || paths["apis/apps/v1"] == nil {
		t.Errorf("OpenAPI v3: %v", err)
	}
}

func applied(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	cms := cs.CoreV1().ConfigMaps(ns)
	with := func(v string) *corev1ac.ConfigMapApplyConfiguration {
		return corev1ac.ConfigMap("a", ns).WithData(map[string]string{"k": v})
	}
	must[*corev1.ConfigMap](t)(cms.Apply(ctx, with("1"), metav1.ApplyOptions{FieldManager: "one"}))
	_, err := cms.Apply(ctx, with("2"), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !strings.Contains(fmt.Sprint(err), `conflict with "one"`) {
		t.Errorf("apply to another's field: %v", err)
	}
	got := must[*corev1.ConfigMap](t)(cms.Apply(ctx, with("2"), metav1.ApplyOptions{FieldManager: "two", Force: true}))
	if got.Data["k"] != "2" {
		t.Errorf("forced: %v", got.Data)
	}
	extract := must[*corev1ac.ConfigMapApplyConfiguration](t)(corev1ac.ExtractConfigMap(got, "two"))
	if extract.Data["k"] != "2" {
		t.Errorf("extracted: %v", extract.Data)
	}
	got = must[*corev1.ConfigMap](t)(cms.Apply(ctx, corev1ac.ConfigMap("a", ns), metav1.ApplyOptions{FieldManager: "two"}))
	if _, there := got.Data["k"]; there {
		t.Errorf("what nobody applies any more stays: %v", got.Data)
	}
}

func patched(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	made := deployment("d", 0)
	must[*appsv1.Deployment](t)(cs.AppsV1().Deployments(ns).Create(ctx, made, metav1.CreateOptions{}))
	for typ, data := range map[types.PatchType]string{
		types.StrategicMergePatchType: `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"x"},{"name":"side","image":"s"}]}}}}`,
		types.MergePatchType:          `{"metadata":{"labels":{"l":"m"}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/annotations","value":{"j":"p"}}]`,
	} {
		if _, err := cs.AppsV1().Deployments(ns).Patch(ctx, "d", typ, []byte(data), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
	got := must[*appsv1.Deployment](t)(cs.AppsV1().Deployments(ns).Get(ctx, "d", metav1.GetOptions{}))
	if got.Labels["l"] != "m" || got.Annotations["j"] != "p" || len(got.Spec.Template.Spec.Containers) != 2 {
		t.Errorf("patched to %v", got)
	}
}

func watched(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, cms := t.Context(), cs.CoreV1().ConfigMaps(namespace(t, cs))
	yes := true
	w := must[watch.Interface](t)(cms.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, LabelSelector: "w=x"}))
	defer w.Stop()
	if ev := <-w.ResultChan(); ev.Type != watch.Bookmark ||
		ev.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("first came %v", ev)
	}
	cm := configMap("w")
	cm.Labels = map[string]string{"w": "x"}
	cm = must[*corev1.ConfigMap](t)(cms.Create(ctx, cm, metav1.CreateOptions{}))
	cm.Data["k"] = "2"
	cm = must[*corev1.ConfigMap](t)(cms.Update(ctx, cm, metav1.UpdateOptions{}))
	cm.Labels = nil
	must[*corev1.ConfigMap](t)(cms.Update(ctx, cm, metav1.UpdateOptions{}))
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		ev := <-w.ResultChan()
		for ev.Type == watch.Bookmark { // one comes every minute
			ev = <-w.ResultChan()
		}
		if ev.Type != want {
			t.Errorf("got %v, want %s", ev, want)
		}
	}
	short := int64(1)
	end := must[watch.Interface](t)(cms.Watch(ctx, metav1.ListOptions{ResourceVersion: cm.ResourceVersion, TimeoutSeconds: &short}))
	for ev := range end.ResultChan() {
		if ev.Type == watch.Error {
			t.Errorf("a watch that ends in time says %v", ev.Object)
		}
	}
	if _, err := cms.List(ctx, metav1.ListOptions{ResourceVersion: "1",
		ResourceVersionMatch: metav1.ResourceVersionMatchExact}); err != nil && !apierrors.IsResourceExpired(err) {
		t.Errorf("list at a revision of long ago: %v", err)
	}
	err := cs.CoreV1().RESTClient().Get().Resource("configmaps").Param("resourceVersion", "99999999").MaxRetries(0).Do(ctx).Error()
	if !apierrors.IsTimeout(err) {
		t.Errorf("list at a revision to come: %v", err)
	}
}

func paged(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, cms := t.Context(), cs.CoreV1().ConfigMaps(namespace(t, cs))
	for i := range 7 {
		cm := configMap(fmt.Sprintf("p-%d", i))
		cm.Labels = map[string]string{"p": "q"}
		must[*corev1.ConfigMap](t)(cms.Create(ctx, cm, metav1.CreateOptions{}))
	}
	var names []string
	opts, rev := metav1.ListOptions{LabelSelector: "p=q", Limit: 3}, ""
	for {
		page := must[*corev1.ConfigMapList](t)(cms.List(ctx, opts))
		if rev != "" && page.ResourceVersion != rev {
			t.Errorf("a page at %s, the first at %s", page.ResourceVersion, rev)
		}
		rev = page.ResourceVersion
		for _, cm := range page.Items {
			names = append(names, cm.Name)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
	}
	if len(names) != 7 {
		t.Errorf("pages hold %v", names)
	}
	if err := cms.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "p=q"}); err != nil {
		t.Error(err)
	}
	if left := must[*corev1.ConfigMapList](t)(cms.List(ctx, metav1.ListOptions{LabelSelector: "p=q"})); len(left.Items) != 0 {
		t.Errorf("left: %v", left.Items)
	}
}

func dryly(t *testing.T, cfg *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	must[*corev1.ConfigMap](t)(cs.CoreV1().ConfigMaps(ns).Create(ctx, configMap("dry"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	if _, err := cs.CoreV1().ConfigMaps(ns).Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run was stored: %v", err)
	}
	dyn := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(cfg))
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "x"}, "dat": "v"}}
	res := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(ns)
	_, err := res.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "dat"`) {
		t.Errorf("strict: %v", err)
	}
	must[*unstructured.Unstructured](t)(res.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore}))
}

func users(t *testing.T, cfg *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	tok := must[*authenticationv1.TokenRequest](t)(cs.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	account := rest.AnonymousClientConfig(cfg)
	account.BearerToken = tok.Status.Token
	own := clientset(t, account)
	me := must[*authenticationv1.SelfSubjectReview](t)(own.AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
	if want := "system:serviceaccount:" + ns + ":default"; me.Status.UserInfo.Username != want {
		t.Errorf("a token of %s is %s", want, me.Status.UserInfo.Username)
	}
	if _, err := own.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a service account lists secrets: %v", err)
	}
	if _, err := clientset(t, rest.AnonymousClientConfig(cfg)).CoreV1().Pods(ns).List(ctx,
		metav1.ListOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("nobody lists pods: %v", err)
	}
	account.BearerToken = "junk"
	if _, err := clientset(t, account).CoreV1().Pods(ns).List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a junk token lists pods: %v", err)
	}
	as := rest.CopyConfig(cfg)
	as.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}
	jane := must[*authenticationv1.SelfSubjectReview](t)(clientset(t, as).AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
	if u := jane.Status.UserInfo; u.Username != "jane" || fmt.Sprint(u.Groups) != "[devs system:authenticated]" ||
		fmt.Sprint(u.Extra) != "map[k:[v]]" {
		t.Errorf("impersonated: %v", u)
	}
}

func elected(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ns := namespace(t, cs)
	for _, id := range []string{"one", "two"} { // the second leads when the first has let go
		ctx, stop := context.WithTimeout(t.Context(), patience)
		led := false
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: ns, Name: "l"}, Client: cs.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: id}},
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led = true; stop() }, OnStoppedLeading: func() {}},
		})
		if !led && ctx.Err() == context.DeadlineExceeded {
			t.Errorf("%s never led", id)
		}
		stop()
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: l}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
}

func available(t *testing.T, cs *kubernetes.Clientset, ns, name string, n int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d replicas of %s", n, name), func(ctx context.Context) (bool, error) {
		d, err := cs.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == n && d.Status.Replicas == n, nil
	})
}

func scaled(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	must[*appsv1.Deployment](t)(cs.AppsV1().Deployments(ns).Create(ctx, deployment("s", 1), metav1.CreateOptions{}))
	available(t, cs, ns, "s", 1)
	s, err := cs.AppsV1().Deployments(ns).GetScale(ctx, "s", metav1.GetOptions{})
	if err != nil || s.Spec.Replicas != 1 || s.Status.Selector != "app=s" {
		t.Fatalf("scale: %v, %v", s, err)
	}
	s.Spec.Replicas = 3
	if _, err := cs.AppsV1().Deployments(ns).UpdateScale(ctx, "s", s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	available(t, cs, ns, "s", 3)
}

func evicted(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	must[*appsv1.Deployment](t)(cs.AppsV1().Deployments(ns).Create(ctx, deployment("e", 2), metav1.CreateOptions{}))
	two := intstr.FromInt32(2)
	must[*policyv1.PodDisruptionBudget](t)(cs.PolicyV1().PodDisruptionBudgets(ns).Create(ctx,
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "e"},
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &two,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "e"}}}}, metav1.CreateOptions{}))
	available(t, cs, ns, "e", 2)
	pods := must[*corev1.PodList](t)(cs.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=e"}))
	err := cs.PolicyV1().Evictions(ns).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pods.Items[0].Name}})
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("an eviction that the budget forbids: %v", err)
	}
	if err := cs.PolicyV1().PodDisruptionBudgets(ns).Delete(ctx, "e", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.PolicyV1().Evictions(ns).Evict(ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pods.Items[0].Name}}); err != nil {
		t.Error(err)
	}
}

func shaped(t *testing.T, cfg *rest.Config, cs *kubernetes.Clientset) {
	ns := namespace(t, cs)
	must[*corev1.ConfigMap](t)(cs.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("m"), metav1.CreateOptions{}))
	m := must[metadata.Interface](t)(metadata.NewForConfig(cfg)).Resource(schema.GroupVersionResource{Version: "v1",
		Resource: "configmaps"}).Namespace(ns)
	if got := must[*metav1.PartialObjectMetadata](t)(m.Get(t.Context(), "m", metav1.GetOptions{})); got.Name != "m" {
		t.Errorf("metadata: %v", got)
	}
	if list := must[*metav1.PartialObjectMetadataList](t)(m.List(t.Context(), metav1.ListOptions{})); len(list.Items) < 1 {
		t.Error("no metadata in the list")
	}
	table := &metav1.Table{}
	err := cs.CoreV1().RESTClient().Get().Namespace(ns).Resource("configmaps").SetHeader("Accept",
		"application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil || len(table.Rows) < 1 || table.ColumnDefinitions[0].Name != "Name" {
		t.Errorf("table: %v, %v", table, err)
	}
}

func deleted(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	pods := cs.CoreV1().Pods(ns)
	must[*corev1.Pod](t)(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: deployment("p", 1).Spec.Template.Spec}, metav1.CreateOptions{}))
	eventually(t, "run the pod", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, "p", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, nil
	})
	w := must[watch.Interface](t)(pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=p"}))
	defer w.Stop()
	if err := pods.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	marked := false
	for ev := range w.ResultChan() {
		if p, ok := ev.Object.(*corev1.Pod); ok && p.DeletionTimestamp != nil {
			marked = marked || ev.Type == watch.Modified
		}
		if ev.Type == watch.Deleted {
			break
		}
	}
	if !marked {
		t.Error("the pod went without grace")
	}
	if err := cs.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := cs.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func recorded(t *testing.T, _ *rest.Config, cs *kubernetes.Clientset) {
	ctx, ns := t.Context(), namespace(t, cs)
	must[*appsv1.Deployment](t)(cs.AppsV1().Deployments(ns).Create(ctx, deployment("ev", 1), metav1.CreateOptions{}))
	eventually(t, "an event of the deployment", func(ctx context.Context) (bool, error) {
		list, err := cs.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Deployment,involvedObject.name=ev"})
		return err == nil && len(list.Items) > 0 && list.Items[0].Reason == "ScalingReplicaSet", nil
	})
	if list, err := cs.EventsV1().Events(ns).List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Errorf("events.k8s.io: %v", err)
	}
}
