package envtest_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/test/port"
)

// TestMain lets the test's own binary stand in for kloop: envtest starts it as kube-apiserver and etcd. Set
// KUBEBUILDER_ASSETS to test other binaries.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "kube-apiserver", "etcd":
		os.Exit(cli.Main(os.Args))
	}
	os.Exit(withAssets(m.Run))
}

func withAssets(run func() int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return run()
	}
	dir, err := os.MkdirTemp("", "kloop-assets-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			panic(err)
		}
	}
	if err := os.Setenv("KUBEBUILDER_ASSETS", dir); err != nil {
		panic(err)
	}
	return run()
}

// limit is how long anything may take on a machine with much else to do.
const limit = 10 * time.Minute

// start starts an environment and says how long that took.
func start(t *testing.T, env *envtest.Environment) *rest.Config {
	t.Helper()
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = limit, limit
	env.CRDInstallOptions.MaxTime, env.WebhookInstallOptions.MaxTime = limit, limit
	place(t, env)
	began := time.Now()
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(began))
	return cfg
}

// place chooses where all listens that is started: envtest looks for ports that are free, and others may take them until then.
func place(t *testing.T, env *envtest.Environment) {
	t.Helper()
	at := func() (host, number string) {
		host, number, err := net.SplitHostPort(port.Held(t))
		if err != nil {
			t.Fatal(err)
		}
		return host, number
	}
	api, hooks := env.ControlPlane.GetAPIServer(), &env.WebhookInstallOptions
	api.SecureServing.Address, api.SecureServing.Port = at()
	env.ControlPlane.Etcd = &envtest.Etcd{URL: &url.URL{Scheme: "http", Host: port.Held(t)}}
	host, number := at()
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	hooks.LocalServingHost, hooks.LocalServingPort = host, n
}

func stop(t *testing.T, env *envtest.Environment) {
	t.Helper()
	began := time.Now()
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("stopped in %v", time.Since(began))
}

func clientOf(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until f is true, as long as the limit allows.
func eventually(t *testing.T, what string, f func(ctx context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, limit, true,
		func(ctx context.Context) (bool, error) { return f(ctx), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func widget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

// TestPlain is an environment without anything in it: it starts, answers, stops, and starts again, empty.
func TestPlain(t *testing.T) {
	env := &envtest.Environment{}
	c := clientOf(t, start(t, env))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	if err := c.Create(t.Context(), cm); err != nil {
		t.Error(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Errorf("a pod without a service account: %v", err)
	}
	users(t, env)
	registry(t, env)
	stop(t, env)
	c = clientOf(t, start(t, env))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); !apierrors.IsNotFound(err) {
		t.Errorf("after a restart the object is there: %v", err)
	}
	stop(t, env)
}

// users adds one who may do little.
func users(t *testing.T, env *envtest.Environment) {
	t.Helper()
	u, err := env.AddUser(envtest.User{Name: "reader", Groups: []string{"readers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	admin, reader := clientOf(t, env.Config), clientOf(t, u.Config())
	if err := reader.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without roles: %v", err)
	}
	bind := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}}}
	if err := admin.Create(t.Context(), bind); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role to take effect", func(ctx context.Context) bool { return reader.List(ctx, &corev1.SecretList{}) == nil })
}

// registry reads the etcd of the environment, as some suites do.
func registry(t *testing.T, env *envtest.Environment) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{env.ControlPlane.Etcd.URL.String()}, DialTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Get(t.Context(), "/registry/configmaps/default/a")
	if err != nil || len(got.Kvs) != 1 {
		t.Errorf("etcd has %v, %v", got, err)
	}
}

// TestOperator runs an operator: a definition, webhooks, a reconciler in a manager.
func TestOperator(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crds"}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"testdata/webhooks"}}}
	cfg := start(t, env)
	defer stop(t, env)
	ctx, cancel := context.WithCancel(t.Context())
	done := operate(ctx, t, cfg, &env.WebhookInstallOptions)
	defer func() { cancel(); <-done }()
	c := clientOf(t, cfg)

	w := widget("w")
	eventually(t, "the webhooks to answer", func(ctx context.Context) bool { return c.Create(ctx, w) == nil })
	if size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size"); size != 3 {
		t.Errorf("size is %d, want the schema's default", size)
	}
	if colour, _, _ := unstructured.NestedString(w.Object, "spec", "colour"); colour != "blue" {
		t.Errorf("colour is %q, want the webhook's", colour)
	}
	ugly := widget("ugly")
	ugly.Object["spec"] = map[string]any{"colour": "brown"}
	if err := c.Create(ctx, ugly); !apierrors.IsForbidden(err) {
		t.Errorf("the webhook refuses brown: %v", err)
	}
	small := widget("small")
	small.Object["spec"] = map[string]any{"size": int64(0)}
	if err := c.Create(ctx, small); !apierrors.IsInvalid(err) {
		t.Errorf("the schema refuses zero: %v", err)
	}
	eventually(t, "the reconciler's work", func(ctx context.Context) bool {
		cm := &corev1.ConfigMap{}
		if c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "w"}, cm) != nil || c.Get(ctx, client.ObjectKeyFromObject(w), w) != nil {
			return false
		}
		made, _, _ := unstructured.NestedString(w.Object, "status", "made")
		return made == "w" && metav1.IsControlledBy(cm, w)
	})
}

// operate runs a manager until ctx ends.
func operate(ctx context.Context, t *testing.T, cfg *rest.Config, hooks *envtest.WebhookInstallOptions) (done chan struct{}) {
	t.Helper()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort,
			CertDir: hooks.LocalServingCertDir})})
	if err != nil {
		t.Fatal(err)
	}
	mgr.GetWebhookServer().Register("/paint", &webhook.Admission{Handler: admission.HandlerFunc(paint)})
	mgr.GetWebhookServer().Register("/judge", &webhook.Admission{Handler: admission.HandlerFunc(judge)})
	if err := ctrl.NewControllerManagedBy(mgr).For(widget("")).Owns(&corev1.ConfigMap{}).Complete(&maker{mgr.GetClient()}); err != nil {
		t.Fatal(err)
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	return done
}

// paint gives widgets their colour.
func paint(_ context.Context, req admission.Request) admission.Response {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(req.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if _, has, _ := unstructured.NestedString(u.Object, "spec", "colour"); !has {
		if err := unstructured.SetNestedField(u.Object, "blue", "spec", "colour"); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, data)
}

// judge has taste.
func judge(_ context.Context, req admission.Request) admission.Response {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(req.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if colour, _, _ := unstructured.NestedString(u.Object, "spec", "colour"); colour == "brown" {
		return admission.Denied("no brown widgets")
	}
	return admission.Allowed("")
}

// maker makes a ConfigMap for every widget and says so in its status.
type maker struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (m *maker) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := widget("")
	if err := m.Get(ctx, req.NamespacedName, w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	_, err := ctrl.CreateOrUpdate(ctx, m, cm, func() error { return ctrl.SetControllerReference(w, cm, m.Scheme()) })
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := unstructured.SetNestedField(w.Object, cm.Name, "status", "made"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, m.Status().Update(ctx, w)
}

// TestControllers is an environment that converges, as clusters do.
func TestControllers(t *testing.T) {
	t.Setenv("KLOOP_CONTROLLERS", "1")
	env := &envtest.Environment{}
	c := clientOf(t, start(t, env))
	defer stop(t, env)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"a": "b"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "d"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deployment to be available", func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(d), d) == nil && d.Status.AvailableReplicas == 1
	})
	if err := c.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its pods to be collected", func(ctx context.Context) bool {
		pods := &corev1.PodList{}
		return c.List(ctx, pods, client.InNamespace("work")) == nil && len(pods.Items) == 0
	})
	if err := c.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to go", func(ctx context.Context) bool {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(ns), ns))
	})
}

// TestExisting gives envtest a cluster of package cluster instead of processes.
func TestExisting(t *testing.T) {
	began := time.Now()
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	existing := true
	env := &envtest.Environment{UseExistingCluster: &existing, Config: cfg, CRDDirectoryPaths: []string{"testdata/crds"}}
	cl := clientOf(t, start(t, env))
	t.Logf("the cluster and the environment took %v", time.Since(began))
	defer stop(t, env)
	w := widget("w")
	if err := cl.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size"); size != 3 {
		t.Errorf("size is %d, want the schema's default", size)
	}
}
