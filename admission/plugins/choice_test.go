package plugins

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// chosen is the chain with one plugin in it.
func chosen(t *testing.T, cfg admission.Config, name string) admission.Chain {
	t.Helper()
	for _, p := range All(cfg) {
		if p.Name == name {
			if !p.Off {
				t.Errorf("%s is on by default", name)
			}
			return admission.Chain{p}
		}
	}
	t.Fatalf("no plugin %s", name)
	return nil
}

// run admits a request and says why it was refused.
func run(c admission.Chain, r *admission.Request) string {
	if r.User == nil {
		r.User = &auth.User{Name: "u"}
	}
	if r.Namespace == "" {
		r.Namespace = "ns"
	}
	err := c.Mutate(context.Background(), r)
	if err == nil {
		err = c.Validate(context.Background(), r)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func annotated(key, value string) resource.Reader {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	if key != "" {
		ns.Annotations = map[string]string{key: value}
	}
	return authtest.Of(core.Namespaces, ns)
}

func TestChosenPlugins(t *testing.T) {
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := simplePod()
		if edit != nil {
			edit(p)
		}
		return p
	}
	on := func(key string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}}
		})
	}
	service := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}, Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	selecting := func(kv ...string) *corev1.Pod {
		return pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{kv[0]: kv[1]} })
	}
	gpu := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	for _, x := range []struct {
		name, plugin string
		cfg          admission.Settings
		r            admission.Request
		text         string // "": let in
	}{
		{"all", "AlwaysDeny", admission.Settings{}, admission.Request{Op: admission.Create, Kind: core.Pods, Object: pod(nil)},
			`pods "p" is forbidden: admission control is denying all modifications`},
		{"all", "AlwaysAdmit", admission.Settings{}, admission.Request{Op: admission.Create, Kind: core.Pods, Object: pod(nil)}, ""},
		{"missing", "NamespaceExists", admission.Settings{}, admission.Request{Op: admission.Update, Namespace: "gone", Kind: core.Pods,
			Object: pod(nil)},
			`namespaces "gone" not found`},
		{"there", "NamespaceExists", admission.Settings{}, admission.Request{Op: admission.Delete, Kind: core.Pods}, ""},
		{"host", "LimitPodHardAntiAffinityTopology", admission.Settings{}, admission.Request{Op: admission.Create, Kind: core.Pods,
			Object: on(corev1.LabelHostname)}, ""},
		{"zone", "LimitPodHardAntiAffinityTopology", admission.Settings{}, admission.Request{Op: admission.Create, Kind: core.Pods,
			Object: on("zone")},
			`pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname ` +
				`is allowed`},
		{"new", "DenyServiceExternalIPs", admission.Settings{}, admission.Request{Op: admission.Create, Kind: core.Services,
			Object: service("1.2.3.4")},
			`services "s" is forbidden: Use of external IPs is denied by admission control.`},
		{"kept", "DenyServiceExternalIPs", admission.Settings{}, admission.Request{Op: admission.Update, Kind: core.Services,
			Object: service("1.2.3.4"),
			Old:    service("1.2.3.4", "1.2.3.5")}, ""},
		{"more", "DenyServiceExternalIPs", admission.Settings{}, admission.Request{Op: admission.Update, Kind: core.Services,
			Object: service("1.2.3.4", "1.2.3.5"),
			Old:    service("1.2.3.4")}, "is denied"},
		{"conflict", "PodNodeSelector", admission.Settings{NodeSelectors: map[string]string{DefaultNodeSelector: "env=a"}},
			admission.Request{Op: admission.Create, Kind: core.Pods, Object: selecting("env", "b")},
			`pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector`},
		{"not allowed", "PodNodeSelector", admission.Settings{NodeSelectors: map[string]string{"ns": "env=a"}},
			admission.Request{Op: admission.Create, Kind: core.Pods, Object: selecting("x", "y")},
			`pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist`},
		{"not allowed", "PodTolerationRestriction",
			admission.Settings{Tolerations: admission.TolerationRules{Whitelist: []corev1.Toleration{{Key: "a",
				Operator: corev1.TolerationOpExists}},
				Default: []corev1.Toleration{gpu}}},
			admission.Request{Op: admission.Create, Kind: core.Pods, Object: pod(nil)},
			"pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"},
		{"limited name", "ResourceQuota", admission.Settings{Limited: []admission.LimitedResource{{Resource: "pods",
			MatchContains: []string{"pods"}}}},
			admission.Request{Op: admission.Create, Kind: core.Pods, Object: pod(nil)},
			`pods "p" is forbidden: insufficient quota to consume: count/pods,pods`},
		{"limited scope", "ResourceQuota",
			admission.Settings{Limited: []admission.LimitedResource{{Resource: "pods",
				MatchScopes: []corev1.ScopedResourceSelectorRequirement{
					{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"}}}}}},
			admission.Request{Op: admission.Create, Kind: core.Pods,
				Object: pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })},
			"insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
	} {
		t.Run(x.plugin+" "+x.name, func(t *testing.T) {
			cfg := admission.Config{Settings: x.cfg, Charge: func(_ context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota,
				error) {
				return q, nil
			}}
			var c admission.Chain
			if x.plugin == "ResourceQuota" {
				c = Default(cfg)
				c = c[len(c)-1:]
			} else {
				c = chosen(t, cfg, x.plugin)
			}
			x.r.Read = annotated("", "")
			if got := run(c, &x.r); (got == "") != (x.text == "") || !strings.Contains(got, x.text) {
				t.Errorf("%q, want %q", got, x.text)
			}
		})
	}
}

func TestAlwaysPullImages(t *testing.T) {
	p := simplePod()
	p.Spec.Volumes = []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{PullPolicy: corev1.PullNever}}}}
	c := chosen(t, admission.Config{}, "AlwaysPullImages")
	if err := run(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Object: p, Read: annotated("", "")}); err != "" {
		t.Fatal(err)
	}
	if p.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || p.Spec.Volumes[0].Image.PullPolicy != corev1.PullAlways {
		t.Error(p.Spec)
	}
	p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	err := c.Validate(t.Context(), &admission.Request{Op: admission.Create, Kind: core.Pods, Object: p})
	if err == nil ||
		err.Error() != `pods "p" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"` {
		t.Error(err)
	}
}

func TestNamespaceAutoProvision(t *testing.T) {
	var made []string
	c := chosen(t, admission.Config{MakeNamespace: func(_ context.Context, name string) error { made = append(made, name); return nil }},
		"NamespaceAutoProvision")
	for _, r := range []admission.Request{
		{Op: admission.Create, Namespace: "new", Kind: core.Pods, Object: simplePod()},
		{Op: admission.Create, Namespace: "dry", Kind: core.Pods, Object: simplePod(), DryRun: true},
		{Op: admission.Create, Namespace: "ns", Kind: core.Pods, Object: simplePod()},
		{Op: admission.Update, Namespace: "old", Kind: core.Pods, Object: simplePod()},
	} {
		r.Read = annotated("", "")
		if err := run(c, &r); err != "" {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(made, []string{"new"}) {
		t.Error(made)
	}
}

func TestPodNodeSelectorMerges(t *testing.T) {
	c := chosen(t, admission.Config{Settings: admission.Settings{NodeSelectors: map[string]string{DefaultNodeSelector: "env=a"}}},
		"PodNodeSelector")
	p := simplePod()
	p.Spec.NodeSelector = map[string]string{"x": "y"}
	if err := run(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Object: p, Read: annotated(nodeSelectorAnnotation,
		"env=b")}); err != "" {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Spec.NodeSelector, map[string]string{"x": "y", "env": "b"}) {
		t.Error(p.Spec.NodeSelector)
	}
}

func TestTolerationRules(t *testing.T) {
	c := chosen(t, admission.Config{}, "PodTolerationRestriction")
	p := simplePod()
	p.Spec.Containers[0].Resources.Requests = amounts("cpu", "1")
	p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpEqual, Value: "1"}}
	if err := run(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Object: p,
		Read: annotated("scheduler.alpha.kubernetes.io/defaultTolerations", `[{"key":"a","operator":"Exists"}]`)}); err != "" {
		t.Fatal(err)
	}
	want := []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists},
		{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	if !reflect.DeepEqual(p.Spec.Tolerations, want) {
		t.Error(p.Spec.Tolerations)
	}
	p = simplePod()
	p.Spec.Containers[0].Resources.Requests = amounts("example.com/gpu", "1")
	if err := run(chosen(t, admission.Config{}, "ExtendedResourceToleration"), &admission.Request{Op: admission.Create, Kind: core.Pods,
		Object: p}); err != "" {
		t.Fatal(err)
	}
	if want := []corev1.Toleration{{Key: "example.com/gpu", Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoSchedule}}; !reflect.DeepEqual(p.Spec.Tolerations, want) {
		t.Error(p.Spec.Tolerations)
	}
}

func TestEventRateLimit(t *testing.T) {
	c := chosen(t, admission.Config{Settings: admission.Settings{Events: []admission.EventLimit{{Type: admission.LimitNamespace, QPS: 1,
		Burst: 2}}}}, "EventRateLimit")
	ask := func(ns string, dry bool) string {
		return run(c, &admission.Request{Op: admission.Create, Namespace: ns, Kind: core.Events, Object: &corev1.Event{}, DryRun: dry})
	}
	for range 2 {
		if err := ask("a", false); err != "" {
			t.Error(err)
		}
	}
	err := c.Validate(t.Context(), &admission.Request{Op: admission.Create, Namespace: "a", Kind: core.Events, Object: &corev1.Event{}})
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "limit reached on type Namespace for key a") {
		t.Error(err)
	}
	if err := ask("b", false); err != "" {
		t.Error(err)
	}
	if err := ask("a", true); err != "" {
		t.Error(err)
	}
}

// allowing lets through what its list names, as "verb resource/subresource".
type allowing []string

func (a allowing) Authorize(_ context.Context, x *auth.Attributes) (auth.Decision, string, error) {
	for _, w := range a {
		if w == strings.TrimSuffix(x.Verb+" "+x.Resource+"/"+x.Subresource, "/") {
			return auth.Allow, "", nil
		}
	}
	return auth.NoOpinion, "", nil
}

func TestOwnerReferences(t *testing.T) {
	yes := true
	owned := func(uid string, block *bool) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
		if uid != "" {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u", BlockOwnerDeletion: block}}
		}
		return c
	}
	for _, x := range []struct {
		name string
		may  allowing
		r    admission.Request
		text string
	}{
		{"a new object has any owner", nil, admission.Request{Op: admission.Create, Object: owned("u", nil)}, ""},
		{"but may not hold it up", nil, admission.Request{Op: admission.Create, Object: owned("u", &yes)},
			`configmaps "c" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: ` +
				`, <nil>`},
		{"unless it may", allowing{"update pods/finalizers"}, admission.Request{Op: admission.Create, Object: owned("u", &yes)}, ""},
		{"an old object", nil, admission.Request{Op: admission.Update, Name: "c", Object: owned("u", nil), Old: owned("", nil)},
			"cannot set an ownerRef on a resource you can't delete: , <nil>"},
		{"which one may delete", allowing{"delete configmaps"}, admission.Request{Op: admission.Update, Name: "c", Object: owned("u",
			nil), Old: owned("", nil)}, ""},
		{"the same owner", nil, admission.Request{Op: admission.Update, Name: "c", Object: owned("u", &yes), Old: owned("u", &yes)}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.r.Kind = core.ConfigMaps
			c := chosen(t, admission.Config{Authorize: x.may, Kinds: kinds.NewSet()}, "OwnerReferencesPermissionEnforcement")
			if got := run(c, &x.r); (got == "") != (x.text == "") || !strings.Contains(got, x.text) {
				t.Errorf("%s: %q, want %q", x.name, got, x.text)
			}
		})
	}
}

func TestImagePolicy(t *testing.T) {
	now, asked := time.Now(), 0
	var answer ImageReviewStatus
	var broken error
	policy := &admission.ImagePolicy{Allow: time.Minute, Deny: time.Second, Ask: func(_ context.Context, review, out any) error {
		asked++
		if got := review.(*ImageReview).Spec; len(got.Containers) != 1 || got.Namespace != "ns" ||
			got.Annotations["x.image-policy.k8s.io/y"] != "z" || len(got.Annotations) != 1 {
			t.Error(got)
		}
		out.(*ImageReview).Status = answer
		return broken
	}}
	c := chosen(t, admission.Config{Settings: admission.Settings{Images: policy}, Now: func() time.Time { return now }},
		"ImagePolicyWebhook")
	ask := func() string {
		p := simplePod()
		p.Annotations = map[string]string{"x.image-policy.k8s.io/y": "z", "other": "o"}
		return run(c, &admission.Request{Op: admission.Create, Kind: core.Pods, Object: p})
	}
	for _, x := range []struct {
		status ImageReviewStatus
		err    error
		open   bool
		after  time.Duration
		text   string
		asked  int
	}{
		{ImageReviewStatus{Reason: "old"}, nil, false, 0,
			`pods "p" is forbidden: image policy webhook backend denied one or more images: old`, 1},
		{ImageReviewStatus{Allowed: true}, nil, false, 0, "old", 1}, // remembered
		{ImageReviewStatus{}, nil, false, time.Minute,
			`pods "p" is forbidden: one or more images rejected by webhook backend`, 2},
		{ImageReviewStatus{}, errors.New("no answer"), false, time.Minute, `pods "p" is forbidden: no answer`, 3},
		{ImageReviewStatus{}, errors.New("no answer"), true, time.Minute, "", 4},
		{ImageReviewStatus{Allowed: true}, nil, false, time.Minute, "", 5},
	} {
		answer, broken, policy.DefaultAllow = x.status, x.err, x.open
		now = now.Add(x.after)
		if got := ask(); (got == "") != (x.text == "") || !strings.Contains(got, x.text) || asked != x.asked {
			t.Errorf("%q after %d questions, want %q after %d", got, asked, x.text, x.asked)
		}
	}
}

// TestExemptNamespace: the labels of an exempt namespace are of no use, which it is told.
func TestExemptNamespace(t *testing.T) {
	free := admission.PodSecurity{Namespaces: []string{"free"}}
	for _, p := range Default(admission.Config{Settings: admission.Settings{PodSecurity: free}}) {
		if p.Name != "PodSecurity" {
			continue
		}
		for labels, want := range map[string]string{
			"":     "",
			"warn": `namespace "free" is exempt from Pod Security, and the policy (warn=restricted:latest) will be ignored`,
		} {
			ns, got := namespace("free"), ""
			if labels != "" {
				ns.Labels = map[string]string{"pod-security.kubernetes.io/" + labels: "restricted"}
			}
			err := p.Validate(t.Context(), &admission.Request{Op: admission.Create, Kind: core.Namespaces, Name: "free", Object: ns,
				Warn: func(text string) { got += text }})
			if err != nil || got != want {
				t.Errorf("%v %q, want %q", err, got, want)
			}
		}
	}
}
