package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/resource"
)

const marked = "the-value-that-must-not-be-seen"

// A cluster is forked over HTTP by its administrator and by one who may see little; neither fork has the value of a Secret, and plans on
// both are made.
func TestRead(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), SimNodes: 3, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	create(t, c, kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"data":{"token":"` + marked + `"}}`, "example.com/original": marked}},
		Data: map[string][]byte{"token": []byte(marked)}})
	create(t, c, kinds.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments", "replicasets"}, Verbs: []string{"list"}}}})
	create(t, c, kinds.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "few"}, Subjects: []rbacv1.Subject{{Kind: "User",
			APIGroup: rbacv1.GroupName, Name: "jane"}}})
	create(t, c, kinds.CustomResourceDefinitions, aDefinition(t))

	all := fork(t, c, "kubernetes-admin", "system:masters")
	if len(all.Unseen) > 0 {
		t.Errorf("the administrator may not see %v", all.Unseen)
	}
	var saved bytes.Buffer
	if err := all.Save(&saved); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(saved.String(), marked) || strings.Contains(saved.String(), "dGhlLXZhbHVl") {
		t.Error("the fork has the value of a Secret")
	}
	if !strings.Contains(saved.String(), `"token"`) {
		t.Error("the fork has not the key of a Secret")
	}
	again, err := Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	change := manifest(t, web)
	hold(t, run(t, all, change), "ends well", "4 pods of replicaset/web-")
	if a, b := text(t, run(t, all, change)), text(t, run(t, again, change)); a != b {
		t.Errorf("a fork that was saved is another:\n%s\n%s", a, b)
	}

	few := fork(t, c, "jane")
	hold(t, run(t, few, change), ", nodes,", ", secrets,", "pods in namespaces other than default", ": you may not list them")
	if n := len(few.NotSeen()); len(few.Unseen) < 20 || n != 1 {
		t.Errorf("what may not be listed is told in %d lines, of %q", n, few.Unseen)
	}
}

func create(t *testing.T, c *cluster.Cluster, k resource.Kind, obj resource.Object) {
	t.Helper()
	if _, err := c.Client().Create(t.Context(), k, obj); err != nil {
		t.Fatal(err)
	}
}

func aDefinition(t *testing.T) resource.Object {
	t.Helper()
	docs, err := ReadManifest(strings.NewReader(crontabs))
	if err != nil {
		t.Fatal(err)
	}
	obj := kinds.CustomResourceDefinitions.New(kinds.CustomResourceDefinitions.GVK)
	if err := json.Unmarshal(docs[0].data, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func fork(t *testing.T, c *cluster.Cluster, user string, groups ...string) *Fork {
	t.Helper()
	data, err := c.Kubeconfig(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(t.Context(), cfg, "default")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A server that answers with pages, and forgets in the middle where it was, is read from the start; one without end is given up.
func TestPages(t *testing.T) {
	var forgot atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		next := r.URL.Query().Get("continue")
		switch {
		case r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.33.1"}`)
		case r.URL.Path != "/api/v1/pods":
			w.WriteHeader(http.StatusNotFound)
		case next == "b" && !forgot.Swap(true):
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
		default:
			after := map[string]string{"": "b", "b": ""}[next]
			_, _ = fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[{"metadata":{"name":"p%s","namespace":"default"}}]}`, after, next)
		}
	}))
	defer s.Close()
	f, err := Read(t.Context(), &rest.Config{Host: s.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for p := range each(f, kinds.Pods) {
		names = append(names, p.Name)
	}
	if fmt.Sprint(names) != "[p pb]" || f.Version != "v1.33.1" {
		t.Errorf("read %v of %s", names, f.Version)
	}
}

// A kind whose objects the server can't list, as its conversion webhook is down, is told of and left out.
func TestUnlistable(t *testing.T) {
	def := resource.As[*apiextensionsv1.CustomResourceDefinition](aDefinition(t))
	def.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established,
		Status: apiextensionsv1.ConditionTrue}}
	list, err := json.Marshal(apiextensionsv1.CustomResourceDefinitionList{Items: []apiextensionsv1.CustomResourceDefinition{*def}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.33.1"}`)
		case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions"):
			_, _ = w.Write(list)
		case strings.HasSuffix(r.URL.Path, "/"+def.Spec.Names.Plural):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"conversion webhook is down","code":500}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	f, err := Read(t.Context(), &rest.Config{Host: s.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := "crontabs.example.com: the server can't list them: conversion webhook is down"; fmt.Sprint(f.NotSeen()) != "["+want+"]" {
		t.Errorf("not seen: %q, want %q", f.NotSeen(), want)
	}
}

// A server that keeps its version to itself is planned for all the same, by the newest rules, and the report says so.
func TestNoVersion(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[bool]int{true: http.StatusForbidden, false: http.StatusNotFound}[r.URL.Path == "/version"])
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	defer s.Close()
	f, err := Read(t.Context(), &rest.Config{Host: s.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	hold(t, run(t, f, manifest(t, web)), "of a version that you may not ask for", "the server's version, which you may not ask for")
}

// Answers that are cut off or no lists are errors.
func TestBadPages(t *testing.T) {
	list := corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}
	list.Continue = "next"
	data, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p, err := openProto(kinds.Pods, kinds.Pods.GVK, data)
	if err != nil || len(p.objects) != 2 || p.objects[1].GetName() != "b" || p.next != "next" {
		t.Errorf("%v %v", p, err)
	}
	for i := range data {
		if p, err := openProto(kinds.Pods, kinds.Pods.GVK, data[:i]); err == nil && len(p.objects) == 2 {
			t.Errorf("%d of %d bytes are a whole list", i, len(data))
		}
	}
	long := binary.AppendUvarint([]byte{2<<3 | 2}, 1<<62)
	for _, bad := range [][]byte{long, {0xff}, {2<<3 | 5, 1}} {
		if _, err := openProto(kinds.Pods, kinds.Pods.GVK, bad); err == nil {
			t.Errorf("%x is a list", bad)
		}
	}
	good := `{"format":"` + format + `"}` + "\n"
	for _, bad := range []string{"", "{}x", `{"format":"other"}`, good + "x", good + `{"apiVersion":"v9","kind":"No"}`} {
		if _, err := Load(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is a fork", bad)
		}
	}
}
