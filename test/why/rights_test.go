package why_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/survey"
)

// rights has readers and what they may read beside gaps, as RESOURCE[.GROUP]; "view" is the role of that name. in names the namespace;
// "": all.
var rights = []struct {
	name, in string
	may      []string
}{
	{"viewer", "", []string{"view"}},
	{"viewer-here", "claim-chain", []string{"view"}},
	{"viewer-there", "mount", []string{"view"}},
	{"deployer", "", []string{"deployments.apps"}},
	{"pods-only", "", []string{"pods"}},
	{"workloads", "", []string{"pods", "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"}},
	{"eventful", "", []string{"events", "deployments.apps", "replicasets.apps"}},
	{"network", "", []string{"services", "ingresses.networking.k8s.io", "endpointslices.discovery.k8s.io"}},
	{"storage", "", []string{"persistentvolumeclaims", "persistentvolumes"}},
	{"nodes-only", "", []string{"nodes"}},
	{"spaces", "", []string{"namespaces"}},
	{"batch", "", []string{"jobs.batch", "cronjobs.batch"}},
	{"policy", "", []string{"poddisruptionbudgets.policy", "horizontalpodautoscalers.autoscaling", "resourcequotas"}},
	{"custom", "", []string{"*.busy.example.com", "*.stalled.example.com"}},
	{"nobody", "", nil},
}

// TestRights makes a situation of each sort and asks as those who may read little: they hear of nothing that they may not read.
func TestRights(t *testing.T) {
	names := []string{"selector", "cordoned", "claim-chain", "image", "crash", "config", "mount", "quota", "security", "webhook",
		"webhook-circle",
		"stateful", "job", "job-quota", "service-selects-nothing", "service-port", "autoscaler-target", "namespace-held", "foreground",
		"claim-in-use", "operator-reports", "operator-forbidden", "drain", "ingress-backend", "ingress-secret", "volume-mistyped", "csr",
		"pull-secret", "config-key", "two-budgets", "init-waits-service", "devices-template", "webhook-two"}
	list := slices.DeleteFunc(read(t, "situations.yaml"), func(s situation) bool {
		return s.World != "" || !slices.Contains(names, s.Name)
	})
	w := start(t, "")
	for _, s := range list {
		w.make(s)
	}
	w.until("most of it is stuck", func() error {
		gaps, err := w.dyn.Resource(convergence.GroupVersion.WithResource("gaps")).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(gaps.Items) < 28 {
			err = fmt.Errorf("there are %d gaps", len(gaps.Items))
		}
		return err
	})
	w.keepsRights()
}

// keepsRights asks as all readers.
func (w *world) keepsRights() {
	all := w.objects(w.dyn, "")
	for _, who := range rights {
		w.t.Run("rights/"+who.name, func(t *testing.T) {
			w := w.with(t)
			w.grant(who.name, who.in, who.may)
			cfg := rest.CopyConfig(w.cfg)
			cfg.Impersonate.UserName = who.name
			cfg.WarningHandler, cfg.UserAgent = rest.NoWarnings{}, "kubectl/v1"
			dyn, err := dynamic.NewForConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			seen := w.objects(dyn, who.in)
			var list struct{ Items []*convergence.Gap }
			w.until("gaps are told", func() error {
				gaps := dyn.Resource(convergence.GroupVersion.WithResource("gaps")).Namespace(who.in)
				got, err := gaps.List(t.Context(), metav1.ListOptions{})
				if err != nil {
					return err
				}
				data, _ := json.Marshal(got)
				list.Items = nil
				return json.Unmarshal(data, &list)
			})
			w.watchesAsListed(dyn, who.in)
			var out, errs bytes.Buffer
			code := cli.Run(t.Context(), strings.NewReader(""), &out, &errs,
				[]string{"kloop", "why", "--kubeconfig", w.config, "--as", who.name, "-n", who.in})
			outside, unseen := w.outside(cfg, who.in, who.name, len(seen))
			for key, text := range w.objects(dyn, who.in) { // what was said meanwhile
				seen[key] += text
			}
			hidden, partial := secretsOf(all, seen), 0
			for _, g := range list.Items {
				if leaks(t, "the server", g, hidden, all, seen); converge.Partial(g) {
					partial++
				}
			}
			for _, g := range outside {
				leaks(t, "from outside", g, hidden, all, seen)
			}
			hints(t, "kloop why", out.String()+errs.String(), hidden)
			if (who.in == "" || partial > 0) && !strings.Contains(errs.String(), "not seen: ") {
				t.Errorf("kloop why ends with %d, and what was not seen is not said: %s%s", code, &out, &errs)
			}
			if len(seen) > 0 && len(seen) < len(all) && len(unseen) == 0 {
				t.Error("from outside, what was not seen is not said")
			}
			t.Logf("%d gaps told, %d of them in part; from outside %d", len(list.Items), partial, len(outside))
		})
	}
}

// outside explains the cluster from what one reader's kubeconfig shows, who may read so many objects.
func (w *world) outside(cfg *rest.Config, in, who string, may int) (list []*convergence.Gap, unseen []string) {
	w.t.Helper()
	raw, err := client.Raw(cfg)
	if err != nil {
		w.fatal("%v", err)
	}
	s, err := survey.Read(w.t.Context(), raw, in, time.Now())
	if err != nil {
		if may > 0 || !strings.Contains(err.Error(), who) {
			w.t.Error(err)
		}
		return nil, nil
	}
	list, _ = gaps.List(s.World, "")
	for _, g := range list {
		converge.Foreign(g)
	}
	return list, s.Unseen
}

// grant gives a user of the name rights.
func (w *world) grant(name, in string, may []string) {
	w.t.Helper()
	rule := func(group string, resources ...any) map[string]any {
		return map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": []any{"get", "list", "watch"}}
	}
	role, rules := "why-"+name, []any{rule("convergence.kloop.dev", "gaps", "fights")}
	for _, m := range may {
		resource, group, _ := strings.Cut(m, ".")
		if m == "view" {
			role = m
		}
		rules = append(rules, rule(group, resource))
	}
	kind, of := "ClusterRoleBinding", map[string]any{"name": role}
	if in != "" {
		kind, of["namespace"] = "RoleBinding", in
	}
	subject := map[string]any{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
	create := func(obj map[string]any) {
		obj["apiVersion"] = "rbac.authorization.k8s.io/v1"
		w.create(situation{}, &unstructured.Unstructured{Object: obj})
	}
	if role != "view" {
		create(map[string]any{"kind": "ClusterRole", "metadata": map[string]any{"name": role}, "rules": rules})
	}
	of["name"] = role + "-" + name
	create(map[string]any{"kind": kind, "metadata": of, "subjects": []any{subject},
		"roleRef": map[string]any{"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
}

// objects are all that a client may list, as text, by RESOURCE[.GROUP]/NAMESPACE/NAME.
func (w *world) objects(dyn dynamic.Interface, in string) map[string]string {
	w.t.Helper()
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(w.cfg).ServerGroupsAndResources()
	if err != nil {
		w.t.Log(err) // the situations have groups whose server does not answer
	}
	out := map[string]string{}
	for _, l := range lists {
		gv, _ := schema.ParseGroupVersion(l.GroupVersion)
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || strings.HasSuffix(gv.Group, "kloop.dev") {
				continue
			}
			list, err := dyn.Resource(gv.WithResource(r.Name)).List(w.t.Context(), metav1.ListOptions{})
			if err != nil && in != "" && r.Namespaced {
				list, err = dyn.Resource(gv.WithResource(r.Name)).Namespace(in).List(w.t.Context(), metav1.ListOptions{})
			}
			if err != nil {
				continue
			}
			for _, o := range list.Items {
				data, _ := json.Marshal(o.Object)
				key := schema.GroupResource{Group: gv.Group, Resource: r.Name}.String() + "/" + o.GetNamespace() + "/" + o.GetName()
				out[key] += string(data) // in each version
			}
		}
	}
	return out
}

var leaf = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// secretsOf are the names and words of objects that are not seen, which nothing that is seen has in it, with the object of each.
func secretsOf(all, seen map[string]string) map[string]string {
	var corpus strings.Builder
	for key, text := range seen {
		corpus.WriteString(key + "\n" + text + "\n")
	}
	open, out := corpus.String(), map[string]string{}
	for key, text := range all {
		_, is := seen[key]
		if is || strings.HasPrefix(key, "apiservices") || strings.Contains(key, "."+rbacv1.GroupName+"/") {
			continue
		}
		for _, s := range leaf.FindAllString(text, -1) {
			s = strings.Trim(s, `"`)
			if len(s) >= 5 && strings.ContainsAny(s, " -./0123456789") && out[s] == "" && !common.MatchString(s) && !strings.Contains(open, s) {
				out[s] = key
			}
		}
	}
	return out
}

// common are words that everybody knows: versions of the API, labels that have a meaning, times.
var common = regexp.MustCompile(`^(horizontal-pod-autoscaler|pod-security.kubernetes.io/enforce|` +
	`[a-z.]+/v1(alpha1|beta1)?|[a-z.-]+\.(k8s\.io|kloop\.dev)(/[a-z0-9-]+)?|\d{4}-\d\d-\d\dT.*)$`)

// hints complains of a text that tells what its reader may not see.
func hints(t *testing.T, who, text string, hidden map[string]string) {
	t.Helper()
	for s, of := range hidden {
		at := strings.Index(text, s)
		if at < 0 || word(text, at-1) || word(text, at+len(s)) {
			continue
		}
		t.Errorf("%s tells %q of %s: %s", who, s, of, text[max(0, at-90):min(len(text), at+90)])
	}
}

// leaks complains of a gap that tells what its reader may not see, or says that what is there is not.
func leaks(t *testing.T, who string, g *convergence.Gap, hidden, all, seen map[string]string) {
	t.Helper()
	data, _ := json.Marshal(g)
	own := g.Object.Resource + "/" + g.Object.Namespace + "/" + g.Object.Name
	if _, is := seen[own]; !is {
		t.Errorf("%s tells of %s, which may not be read", who, own)
	}
	hints(t, who+" of "+own, string(data), hidden)
	gone := []convergence.Object{}
	for i := range g.Chain {
		if g.Chain[i].Cause == "NotFound" {
			gone = append(gone, g.Chain[i].Object)
		}
	}
	if g.Cause == "NotFound" && g.Waits != nil && g.Waits.On != nil {
		gone = append(gone, *g.Waits.On)
	}
	for _, o := range gone {
		if key := fmt.Sprintf("%s/%s/%s", o.Resource, o.Namespace, o.Name); all[key] != "" {
			t.Errorf("%s says of %s that it does not exist: %s", who, key, g.Verdict)
		}
	}
}

func word(text string, at int) bool {
	return at >= 0 && at < len(text) && (text[at] == '-' || text[at] >= '0' && text[at] <= '9' || text[at] >= 'a' && text[at] <= 'z' ||
		text[at] >= 'A' && text[at] <= 'Z')
}

// watchesAsListed watches until the gaps that are told so are those of a list.
func (w *world) watchesAsListed(dyn dynamic.Interface, in string) {
	w.t.Helper()
	gaps := dyn.Resource(convergence.GroupVersion.WithResource("gaps")).Namespace(in)
	stream, err := gaps.Watch(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer stream.Stop()
	told := map[string]string{}
	hear := func(e watch.Event) {
		obj, is := e.Object.(*unstructured.Unstructured)
		if !is {
			w.t.Fatalf("%s of %T", e.Type, e.Object)
		}
		key := obj.GetNamespace() + "/" + obj.GetName()
		if _, had := told[key]; had != (e.Type != watch.Added) {
			w.t.Errorf("%s of %s, which was told: %v", e.Type, key, had)
		}
		if told[key] = fmt.Sprint(obj.Object["cause"]); e.Type == watch.Deleted {
			delete(told, key)
		}
	}
	w.until("a watch tells what a list does", func() error {
		for more := true; more; {
			select {
			case e := <-stream.ResultChan():
				hear(e)
			default:
				more = false
			}
		}
		list, err := gaps.List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		listed := map[string]string{}
		for _, g := range list.Items {
			listed[g.GetNamespace()+"/"+g.GetName()] = fmt.Sprint(g.Object["cause"])
		}
		if !maps.Equal(listed, told) {
			err = fmt.Errorf("listed are %v, watched %v", listed, told)
		}
		return err
	})
}
