package ui

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
)

// mayView lets somebody view the namespace default, and nothing else.
func (s *site) mayView(who rbacv1.Subject) {
	s.t.Helper()
	bind := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: who.Name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{who}}
	if _, err := s.cs.RbacV1().RoleBindings("default").Create(s.t.Context(), bind, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// viewer makes a service account that may view, and returns a token of it.
func (s *site) viewer(name string) string {
	s.t.Helper()
	at := s.cs.CoreV1().ServiceAccounts("default")
	made := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := at.Create(s.t.Context(), made, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.mayView(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name})
	got, err := at.CreateToken(s.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.Status.Token
}

// TestServersPage signs in on the server's own page, as somebody with few rights: they see what they may, and no more.
func TestServersPage(t *testing.T) {
	b := open(t, "--ignore-certificate-errors") // of the cluster's own authority
	s := begin(t, cluster.Config{SimNodes: 1})
	s.deployment("large", 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = asks("100", "1Gi") })
	b.visit(s.c.URL() + "/ui/")
	b.until("document.querySelector('form.door')")
	b.axe("door")
	b.shoot("door")
	const enter = "(() => { document.getElementById('token').value = %q; document.querySelector('.door').requestSubmit(); })()"
	sign := fmt.Sprintf(enter, s.viewer("jane"))
	if err := b.eval(sign, nil); err != nil {
		t.Fatal(err)
	}
	b.until("document.querySelector('.trouble')?.textContent.includes('Name a namespace')") // they may not see all
	name := "(() => { const n = document.getElementById('namespace'); n.value = 'default'; n.dispatchEvent(new Event('change')); })()"
	if err := b.eval(name, nil); err != nil {
		t.Fatal(err)
	}
	b.until("document.querySelector('.gap b')?.textContent === 'deployment/large'")
	b.route("#/o/deployments.apps/default/large")
	b.until(atLeast(".tree li", 3) + "&&" + says("What followed took"))
	var kept string
	const all = "JSON.stringify([localStorage.length, sessionStorage.length, document.cookie])"
	if err := b.eval(all, &kept); err != nil || kept != `[0,0,""]` {
		t.Errorf("the page keeps something of who signed in: %s %v", kept, err)
	}
	b.quiet()
}

// TestStaticForAll sees that the server's files come without a credential and have no rights, and that they can be left out.
func TestStaticForAll(t *testing.T) {
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer hc.CloseIdleConnections()
	get := func(url string) (int, string) {
		res, err := hc.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	s := begin(t, cluster.Config{NoAnonymous: true})
	if code, body := get(s.c.URL() + "/ui/"); code != 200 || !strings.Contains(body, "<title>kloop</title>") {
		t.Errorf("/ui/ is answered with %d", code)
	}
	for path, want := range map[string]int{"/api/v1/pods": 401, "/ui/../api/v1/pods": 404, "/uix": 401, "/convergence/trail": 401} {
		t.Run(path, func(t *testing.T) {
			if code, _ := get(s.c.URL() + path); code != want {
				t.Errorf("%s is answered with %d to somebody without a credential", path, code)
			}
		})
	}
	without := begin(t, cluster.Config{NoPage: true, NoAnonymous: true})
	if code, _ := get(without.c.URL() + "/ui/"); code != 401 {
		t.Errorf("/ui/ is answered with %d by a server that is to have no page", code)
	}
}
