package rbac

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/features"
	kinds "github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

func put(c *authtest.Cluster, objs ...resource.Object) *authtest.Cluster {
	for _, o := range objs {
		switch o.(type) {
		case *rbacv1.Role:
			c.Add(kinds.Roles, o)
		case *rbacv1.ClusterRole:
			c.Add(kinds.ClusterRoles, o)
		case *rbacv1.RoleBinding:
			c.Add(kinds.RoleBindings, o)
		case *rbacv1.ClusterRoleBinding:
			c.Add(kinds.ClusterRoleBindings, o)
		}
	}
	return c
}

func over(c *authtest.Cluster) *Authorizer {
	return New(func() resource.Reader { return c })
}

func role(ns, name string, rules ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: parseRules(nil, rules)}
}

func binding(ns, name, kind, to string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, RoleRef: refTo(kind, to), Subjects: subjects}
}

var (
	alice   = &auth.User{Name: "alice", Groups: []string{auth.GroupAuthenticated}}
	aliceIs = rbacv1.Subject{Kind: "User", Name: "alice"}
)

// ask reads "verb resource[/sub] [group] [ns/name]" or "verb /path".
func ask(u *auth.User, line string) *auth.Attributes {
	w := strings.Fields(line)
	a := &auth.Attributes{User: u, Verb: w[0]}
	if strings.HasPrefix(w[1], "/") && len(w) == 2 {
		a.Path = w[1]
		return a
	}
	a.Resource, a.Subresource, _ = strings.Cut(w[1], "/")
	a.Unnamed = a.Resource == ""
	if len(w) > 2 && w[2] != "core" {
		a.Group = w[2]
	}
	if len(w) > 3 {
		a.Namespace, a.Name, _ = strings.Cut(w[3], "/")
	}
	return a
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		rule     string
		yes, non []string
	}{
		{"get configmaps", []string{"get configmaps core ns/a"}, []string{"list configmaps core ns/", "get configmaps apps ns/a",
			"get configmaps/x core ns/a", "get configmaps core other/a"}},
		{"* configmaps", []string{"deletecollection configmaps core ns/", "impersonate configmaps core ns/a"}, []string{"get secrets core ns/a"}},
		{"get,list *", []string{"get secrets core ns/a", "get pods/log core ns/a"}, []string{"get deployments apps ns/a"}},
		{"get deployments in *", []string{"get deployments apps ns/a", "get deployments x ns/a"}, []string{"get deployments/scale apps ns/a"}},
		{"get,list,delete configmaps named one", []string{"get configmaps core ns/one", "list configmaps core ns/one"},
			[]string{"get configmaps core ns/two", "list configmaps core ns/"}},
		{"* */scale in apps", []string{"get deployments/scale apps ns/a", "update x/scale apps ns/a"},
			[]string{"get deployments apps ns/a", "get deployments/status apps ns/a", "get deployments/upscale apps ns/a"}},
		{"get pods/log", []string{"get pods/log core ns/p"}, []string{"get pods core ns/p", "get pods/exec core ns/p"}},
		{"get */log", []string{"get /log core ns/p"}, []string{"get /exec core ns/p"}},
		{"get *", []string{"get /log core ns/p"}, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			z := over(put(&authtest.Cluster{}, role("ns", "r", c.rule), binding("ns", "b", "Role", "r", aliceIs)))
			for _, line := range c.yes {
				if d, why, _ := z.Authorize(context.Background(), ask(alice, line)); d != auth.Allow ||
					why != `RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "alice"` {
					t.Errorf("%s: %s is refused (%s)", c.rule, line, why)
				}
			}
			for _, line := range c.non {
				if d, _, _ := z.Authorize(context.Background(), ask(alice, line)); d != auth.NoOpinion {
					t.Errorf("%s: %s is allowed", c.rule, line)
				}
			}
		})
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		url, path string
		want      bool
	}{{"/healthz", "/healthz", true}, {"/healthz", "/healthz/etcd", false}, {"/api/*", "/api/v1", true}, {"/api/*", "/api", false},
		{"*", "/x", true}, {"/a*", "/ab/c", true}} {
		t.Run(c.url, func(t *testing.T) {
			r := parseRule("get url " + c.url)
			if got := Allows(&r, ask(alice, "get "+c.path)); got != c.want {
				t.Errorf("%s %s: %v", c.url, c.path, got)
			}
		})
	}
}

func TestDefaultPolicy(t *testing.T) {
	z := auth.Chain{Masters{}, over(put(&authtest.Cluster{}, Bootstrap(nil)...))}
	sa := func(name string) *auth.User {
		return &auth.User{Name: "system:serviceaccount:kube-system:" + name, Groups: append(auth.ServiceAccountGroups("kube-system"),
			auth.GroupAuthenticated)}
	}
	nobody := &auth.User{Name: auth.Anonymous, Groups: []string{auth.GroupUnauthed}}
	for _, c := range []struct {
		u    *auth.User
		line string
		want bool
	}{
		{&auth.User{Name: "x", Groups: []string{auth.GroupMasters}}, "delete nodes", true},
		{&auth.User{Name: "system:kube-scheduler"}, "create pods/binding core x/p", true},
		{&auth.User{Name: "system:kube-scheduler"}, "update leases coordination.k8s.io kube-system/kube-scheduler", true},
		{&auth.User{Name: "system:kube-scheduler"}, "update leases coordination.k8s.io kube-system/other", true}, // by its local role
		{&auth.User{Name: "system:kube-scheduler"}, "update leases coordination.k8s.io default/other", false},
		{&auth.User{Name: "system:kube-scheduler"}, "watch devicetaintrules resource.k8s.io", true},
		{&auth.User{Name: "system:kube-proxy"}, "watch services", true},
		{nobody, "get /healthz", true}, {nobody, "get /healthz/etcd", false}, {nobody, "get /api", false},
		{alice, "get /api/v1", true}, {alice, "get /metrics", false}, {alice, "get /", false},
		{alice, "create selfsubjectreviews authentication.k8s.io", true},
		{nobody, "create selfsubjectreviews authentication.k8s.io", false},
		{alice, "get pods core default/p", false},
		{sa("job-controller"), "create pods core default/p", true},
		{sa("job-controller"), "create secrets core default/p", false},
		{sa("x"), "get /openid/v1/jwks", true},
		{&auth.User{Name: "system:node:n", Groups: []string{auth.GroupNodes}}, "read nodes", false},
	} {
		if d, _, _ := z.Authorize(context.Background(), ask(c.u, c.line)); (d == auth.Allow) != c.want {
			t.Errorf("%s: %s: %v", c.u.Name, c.line, d)
		}
	}
}

func TestFollowsChanges(t *testing.T) {
	c := &authtest.Cluster{}
	z := over(c)
	check := func(step string, want auth.Decision) {
		t.Helper()
		if d, _, _ := z.Authorize(context.Background(), ask(alice, "get configmaps core ns/a")); d != want {
			t.Errorf("%s: %v", step, d)
		}
	}
	check("empty", auth.NoOpinion)
	put(c, binding("ns", "b", "Role", "r", aliceIs))
	check("binding", auth.NoOpinion)
	if _, why, _ := z.Authorize(context.Background(),
		ask(alice, "get x core ns/a")); why != `RBAC: role.rbac.authorization.k8s.io "r" not found` {
		t.Errorf("reason %q", why)
	}
	put(c, role("ns", "r", "get configmaps"))
	check("role", auth.Allow)
	put(c, role("ns", "r", "list configmaps"))
	check("role changed", auth.NoOpinion)
	put(c, role("ns", "r", "get configmaps"))
	check("role back", auth.Allow)
	c.Remove(kinds.RoleBindings, "ns", "b")
	check("binding gone", auth.NoOpinion)
}

func TestServiceAccountSubjects(t *testing.T) {
	sub := rbacv1.Subject{Kind: "ServiceAccount", Name: "sa"}
	z := over(put(&authtest.Cluster{}, role("ns", "r", "get configmaps"), binding("ns", "b", "Role", "r", sub)))
	u := &auth.User{Name: "system:serviceaccount:ns:sa"}
	if d, why, _ := z.Authorize(context.Background(), ask(u, "get configmaps core ns/a")); d != auth.Allow ||
		!strings.HasSuffix(why, `to ServiceAccount "sa/ns"`) {
		t.Errorf("%v %s", d, why)
	}
}

func TestEscalation(t *testing.T) {
	ctx := context.Background()
	c := put(&authtest.Cluster{}, Bootstrap(nil)...)
	put(c, role("ns", "r", "get configmaps named probe", "create,get,update,patch roles,rolebindings in rbac.authorization.k8s.io",
		"get,list pods"), binding("ns", "b", "Role", "r", aliceIs))
	z := over(c)
	try := func(obj, old resource.Object) error {
		name := ""
		if old != nil {
			name = old.GetName()
		}
		return z.CheckWrite(ctx, z, alice, name, obj, old)
	}
	own := role("ns", "r", "get configmaps named probe", "create,get,update,patch roles,rolebindings in rbac.authorization.k8s.io",
		"get,list pods")
	for _, s := range []struct {
		name     string
		obj, old resource.Object
		reason   metav1.StatusReason
		text     string
	}{
		{"held", role("ns", "new", "get pods"), nil, "", ""},
		{"held by name", role("ns", "new", "get configmaps named probe"), nil, "", ""},
		{"not held", role("ns", "new", "delete pods"), nil, "Forbidden", `roles.rbac.authorization.k8s.io "new" is forbidden: ` +
			`user "alice" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n" +
			`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}`},
		{"joined", role("ns", "new", "delete,update pods"), nil, "Forbidden", `Verbs:["delete" "update"]}`},
		{"other namespace", role("other", "new", "get pods"), nil, "Forbidden", ""},
		{"any name", role("ns", "new", "get configmaps"), nil, "Forbidden", ""},
		{"everything", role("ns", "new", "* * in *"), nil, "Forbidden", `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`},
		{"bind own role", binding("ns", "b2", "Role", "r", aliceIs), nil, "", ""},
		{"bind cluster-admin", binding("ns", "b3", "ClusterRole", "cluster-admin", aliceIs), nil, "Forbidden", ""},
		{"bind missing role", binding("ns", "b4", "Role", "nope", aliceIs), nil, "NotFound",
			`rolebindings.rbac.authorization.k8s.io "nope" not found`},
		{"widen own role", role("ns", "r", "get secrets", "get pods"), own, "Forbidden", ""},
		{"only what the collector looks after", collected(own), own, "", ""},
		{"labels of a role that is held", labelled(resource.Clone(own)), own, "", ""},
		{"labels of a role that is not", labelled(role("ns", "r", "get secrets")), role("ns", "r", "get secrets"), "Forbidden", ""},
		{"labels of a binding", labelled(binding("ns", "b6", "ClusterRole", "cluster-admin", aliceIs)),
			binding("ns", "b6", "ClusterRole", "cluster-admin", aliceIs), "Forbidden", ""},
		{"aggregate", gathering(), nil, "Forbidden", "must have cluster-admin privileges to use the aggregationRule"},
		{"no longer aggregate", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, gathering(), "Forbidden", ""},
		{"labels of a role that gathers", labelled(gathering()), gathering(), "Forbidden", ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			err := try(s.obj, s.old)
			if s.reason == "" && err != nil || s.reason != "" && (apierrors.ReasonForError(err) != s.reason ||
				!strings.Contains(err.Error(), s.text)) {
				t.Errorf("got %v", err)
			}
		})
	}
	var st apierrors.APIStatus // what is no role is told by no reason, before validation
	err := try(binding("ns", "b7", "Group", "r", aliceIs), nil)
	if !errors.As(err, &st) || st.Status().Code != http.StatusInternalServerError ||
		err.Error() != `unsupported role reference kind: "Group"` {
		t.Errorf("bind what is no role: %v", err)
	}
	put(c, role("ns", "named", "escalate roles in rbac.authorization.k8s.io named new"), binding("ns", "named", "Role", "named", aliceIs))
	if err := try(role("ns", "new", "* * in *"), role("ns", "new", "get pods")); err != nil {
		t.Error(err)
	}
	if err := try(role("ns", "new", "* * in *"), nil); err == nil {
		t.Error("a role was created that may only be changed")
	}
	put(c, role("ns", "esc", "escalate roles in rbac.authorization.k8s.io", "bind clusterroles in rbac.authorization.k8s.io named edit"),
		binding("ns", "esc", "Role", "esc", aliceIs))
	if err := try(role("ns", "new", "* * in *"), nil); err != nil {
		t.Error(err)
	}
	if err := try(binding("ns", "b5", "ClusterRole", "edit", aliceIs), nil); err != nil {
		t.Error(err)
	}
	if err := try(role("other", "new", "* * in *"), nil); err == nil {
		t.Error("escalated elsewhere")
	}
	master := &auth.User{Name: "m", Groups: []string{auth.GroupMasters}}
	if err := z.CheckWrite(ctx, z, master, "", role("ns", "new", "* * in *"), nil); err != nil {
		t.Error(err)
	}
}

func labelled(o resource.Object) resource.Object {
	o.SetLabels(map[string]string{"new": "yes"})
	return o
}

func collected(o resource.Object) resource.Object {
	o = resource.Clone(o)
	o.SetFinalizers([]string{"foregroundDeletion"})
	o.SetOwnerReferences([]metav1.OwnerReference{{Name: "owner"}})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "collector"}})
	return o
}

func gathering() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"x": "y"}}}}}
}

func TestBootstrapIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Bootstrap(nil) {
		key := fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		var k resource.Kind
		switch r := o.(type) {
		case *rbacv1.ClusterRole:
			k = kinds.ClusterRoles
			if len(r.Rules) == 0 && r.AggregationRule == nil {
				t.Errorf("%s allows nothing", key)
			}
		case *rbacv1.Role:
			k = kinds.Roles
		case *rbacv1.ClusterRoleBinding:
			k = kinds.ClusterRoleBindings
		case *rbacv1.RoleBinding:
			k = kinds.RoleBindings
		}
		was := resource.Clone(o)
		k.SetDefaults(nil, o)
		if errs := k.Check(nil, nil, "", o, nil); len(errs) > 0 {
			t.Errorf("%s: %v", key, errs)
		}
		if next, _ := Reconcile(was, o); next != nil {
			t.Errorf("%s: defaulting changes it", key)
		}
	}
	for _, s := range append(append([]spec{}, clusterPolicy...), controllerPolicy...) {
		for _, line := range s.rules {
			if gate, rest, gated := strings.Cut(line, ": "); gated {
				line = rest
				if _, known := features.Known(features.Newest)[gate]; !known && gate != since37 {
					t.Errorf("%s: there is no feature gate %s", s.name, gate)
				}
			}
			w := strings.Fields(line)
			if len(w) < 2 || len(w)%2 != 0 && w[1] != "url" || len(w) > 2 && w[1] != "url" && w[2] != "in" && w[2] != "named" ||
				len(w) > 4 && w[4] != "named" {
				t.Errorf("%s: %q", s.name, line)
			}
		}
	}
}

// A version has no rights to what it does not serve.
func TestBootstrapOfAnOlderVersion(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	newer := map[string]bool{}
	for _, o := range Bootstrap(nil) {
		newer[o.GetName()] = true
	}
	for _, o := range Bootstrap(on) {
		delete(newer, o.GetName())
		if r, ok := o.(*rbacv1.ClusterRole); ok {
			for _, rule := range r.Rules {
				for _, resource := range rule.Resources {
					if slices.Contains([]string{"clustertrustbundles", "devicetaintrules", "podcertificaterequests"}, resource) {
						t.Errorf("%s: %s", r.Name, resource)
					}
				}
			}
		}
	}
	if want := []string{"system:cluster-trust-bundle-discovery", "system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
		"system:controller:podcertificaterequestcleaner", "system:controller:storage-version-migrator-controller"}; !slices.Equal(
		slices.Sorted(maps.Keys(newer)), want) {
		t.Errorf("1.36 lacks %v, want %v", newer, want)
	}
}

// No one is bound to what a node may do, since the node authorizer knows it better; users bind it to others.
func TestNodeRole(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"}}
	z := over(put(&authtest.Cluster{}, append(Bootstrap(nil), binding)...))
	for _, line := range []string{"create events core default/e", "patch events events.k8s.io default/e",
		"create podcertificaterequests certificates.k8s.io default/p"} {
		t.Run(line, func(t *testing.T) {
			if d, _, _ := z.Authorize(context.Background(), ask(alice, line)); d != auth.Allow {
				t.Errorf("%s: %v", line, d)
			}
		})
	}
}

func TestReconcile(t *testing.T) {
	want := role("ns", "r", "get pods", "list pods")
	want.Annotations = map[string]string{autoupdate: "true"}
	old := role("ns", "r", "get pods,secrets")
	old.Labels = map[string]string{"mine": "yes"}
	next, replace := Reconcile(old, want)
	if replace || len(next.(*rbacv1.Role).Rules) != 2 || next.GetLabels()["mine"] != "yes" || next.GetAnnotations()[autoupdate] != "true" {
		t.Errorf("%+v", next)
	}
	if again, _ := Reconcile(next, want); again != nil {
		t.Errorf("never ends: %+v", again)
	}
	old.Annotations = map[string]string{autoupdate: "false"}
	if next, _ := Reconcile(old, want); next != nil {
		t.Error("a protected role was changed")
	}
	a, b := binding("ns", "b", "Role", "r", aliceIs), binding("ns", "b", "Role", "other", rbacv1.Subject{Kind: "User", Name: "bob"})
	next, replace = Reconcile(a, b)
	if !replace || len(next.(*rbacv1.RoleBinding).Subjects) != 2 || next.(*rbacv1.RoleBinding).RoleRef.Name != "other" {
		t.Errorf("%v %+v", replace, next)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	c := put(&authtest.Cluster{}, Bootstrap(nil)...)
	for i := range 200 {
		ns := fmt.Sprintf("ns-%d", i)
		put(c, role(ns, "r", "get,list,watch pods,configmaps"), binding(ns, "b", "Role", "r", aliceIs))
	}
	z := auth.Chain{Masters{}, over(c)}
	for _, bc := range []struct {
		name string
		a    *auth.Attributes
	}{
		{"user", ask(alice, "get pods core ns-7/p")},
		{"refused", ask(alice, "get secrets core ns-7/p")},
		{"controller", ask(&auth.User{Name: "system:serviceaccount:kube-system:statefulset-controller",
			Groups: []string{auth.GroupServiceAccount, "system:serviceaccounts:kube-system", auth.GroupAuthenticated}}, "patch pods core ns-7/p")},
		{"master", ask(&auth.User{Name: "m", Groups: []string{auth.GroupMasters}}, "get pods core ns-7/p")},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				z.Authorize(context.Background(), bc.a)
			}
		})
	}
	b.Run("after a write elsewhere", func(b *testing.B) {
		a := ask(alice, "get pods core ns-7/p")
		for b.Loop() {
			c.Remove(kinds.Roles, "", "nothing")
			z.Authorize(context.Background(), a)
		}
	})
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			compile(c, over(c).kinds)
		}
	})
	b.Run("bootstrap", func(b *testing.B) {
		for b.Loop() {
			Bootstrap(nil)
		}
	})
}
