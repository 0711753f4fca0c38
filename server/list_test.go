package server_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

func names(l *server.List) string {
	var list []string
	for _, e := range l.Entries {
		list = append(list, e.Object.GetName())
	}
	return strings.Join(list, " ")
}

func (w *world) list(k resource.Kind, opts metav1.ListOptions) (*server.List, error) {
	return w.List(w.t.Context(), w.ask(k, ""), &opts)
}

func TestListVersions(t *testing.T) {
	w := start(t)
	for _, n := range []string{"a", "b", "c", "d"} {
		create(w, configMaps, configMap(n))
	}
	rv := strconv.FormatInt(w.view.Revision(), 10)
	if _, _, err := w.delete(configMaps, "a", nil); err != nil {
		t.Fatal(err)
	}
	const exact, newer = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	for _, x := range []struct {
		rv    string
		match metav1.ResourceVersionMatch
		limit int64
		want  string
	}{
		{"", "", 0, "b c d"}, {"", "", 2, "b c"},
		{"", exact, 0, "Invalid"}, {"", newer, 0, "Invalid"}, {"", "Bogus", 0, "Invalid"},
		{"0", "", 0, "b c d"}, {"0", "", 2, "b c d"}, {"0", exact, 0, "Invalid"}, {"0", newer, 2, "b c d"},
		{rv, "", 0, "b c d"}, {rv, "", 2, "a b"}, {rv, exact, 0, "a b c d"}, {rv, exact, 2, "a b"}, {rv, newer, 0, "b c d"}, {rv,
			newer, 2, "b c"},
		{"abc", "", 0, "BadRequest"}, {"abc", exact, 2, "BadRequest"},
	} {
		t.Run(x.rv, func(t *testing.T) {
			l, err := w.list(configMaps, metav1.ListOptions{ResourceVersion: x.rv, ResourceVersionMatch: x.match, Limit: x.limit})
			got, _, _ := strings.Cut(reason(err), " ")
			if err == nil {
				got = names(l)
			}
			if got != x.want {
				t.Errorf("rv %q match %q limit %d: got %q (%v), want %q", x.rv, x.match, x.limit, got, err, x.want)
			}
		})
	}
}

func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { pages(t, "") })
	synctest.Test(t, func(t *testing.T) { pages(t, "in=yes") })
}

func pages(t *testing.T, selector string) {
	for _, pause := range []time.Duration{0, time.Minute} { // from a snapshot, and from the history
		w := start(t)
		const count = 25
		for i := range count {
			c := configMap(fmt.Sprintf("c%02d", i))
			c.Labels = map[string]string{"in": "yes"}
			create(w, configMaps, c)
			create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.Name}})
		}
		opts := metav1.ListOptions{Limit: 10, LabelSelector: selector}
		var got []string
		var revision int64
		for page := 0; ; page++ {
			l, err := w.list(configMaps, opts)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, names(l))
			if revision == 0 {
				revision = l.Revision
				create(w, configMaps, configMap("c05b")) // must not show
				if _, _, err := w.delete(configMaps, "c20", nil); err != nil {
					t.Fatal(err)
				}
			}
			if l.Revision != revision {
				t.Errorf("page %d is of revision %d, not %d", page, l.Revision, revision)
			}
			left := int64(count - 10*(page+1))
			switch {
			case left <= 0 || selector != "":
				if l.Remaining != nil {
					t.Errorf("page %d: %d remain", page, *l.Remaining)
				}
			case l.Remaining == nil || *l.Remaining != left:
				t.Errorf("page %d: %v remain, not %d", page, l.Remaining, left)
			}
			if opts.Continue = l.Continue; opts.Continue == "" {
				break
			}
			time.Sleep(pause) // simulated
		}
		if all := strings.Fields(strings.Join(got, " ")); len(got) != 3 || len(all) != count || all[20] != "c20" || all[24] != "c24" {
			t.Errorf("pages %q", got)
		}
	}
}

func TestPagesExpire(t *testing.T) { synctest.Test(t, pagesExpire) }

func pagesExpire(t *testing.T) {
	w := start(t)
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		create(w, configMaps, configMap(n))
	}
	l, err := w.list(configMaps, metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	create(w, configMaps, configMap("bb"))
	if err := w.store.Compact(t.Context(), w.view.Revision()); err != nil {
		t.Fatal(err)
	}
	if soon, err := w.list(configMaps, metav1.ListOptions{Limit: 2, Continue: l.Continue}); err != nil || names(soon) != "c d" {
		t.Errorf("soon after: %v, %v", soon, err)
	}
	time.Sleep(time.Minute) // simulated
	_, err = w.list(configMaps, metav1.ListOptions{Limit: 2, Continue: l.Continue})
	var status apierrors.APIStatus
	if reason(err) != "Expired" || !errors.As(err, &status) || status.Status().ListMeta.Continue == "" {
		t.Fatalf("got %v", err)
	}
	l, err = w.list(configMaps, metav1.ListOptions{Limit: 9, Continue: status.Status().ListMeta.Continue})
	if err != nil || names(l) != "bb c d e" || l.Revision != w.view.Revision() {
		t.Errorf("%v, %v", l, err)
	}
}

func TestBadTokens(t *testing.T) {
	w := start(t)
	for _, text := range []string{"{", `{"v":"v2","rv":5,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`,
		`{"v":"meta.k8s.io/v1","rv":5,"start":""}`, `{"v":"meta.k8s.io/v1","rv":5,"start":"../secrets"}`} {
		token := base64.RawURLEncoding.EncodeToString([]byte(text))
		if _, err := w.list(configMaps, metav1.ListOptions{Continue: token}); reason(err) != "BadRequest" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is left is counted for the first page alone: later ones take it from the token. What can't be is counted.
func TestPagesCountOnce(t *testing.T) {
	w := start(t)
	for i := range 9 {
		create(w, configMaps, configMap(fmt.Sprint("c", i)))
		create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}})
	}
	l, err := w.list(configMaps, metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name       string
		left, want int64
	}{{"as told", 7, 5}, {"told wrongly", 6, 4}, {"untold", 0, 5}, {"negative", -1, 5}, {"least", math.MinInt64, 5},
		{"fewer than come", 1, 5}, {"more than there are", 12, 5}, {"most", math.MaxInt64, 5}} {
		t.Run(x.name, func(t *testing.T) {
			token := base64.RawURLEncoding.EncodeToString(
				fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%d,"start":"c1\u0000","left":%d}`, l.Revision, x.left))
			next, err := w.list(configMaps, metav1.ListOptions{Limit: 2, Continue: token})
			if err != nil || names(next) != "c2 c3" || next.Remaining == nil || *next.Remaining != x.want {
				t.Errorf("%v, %v", next, err)
			}
		})
	}
	if read, err := base64.RawURLEncoding.DecodeString(l.Continue); err != nil || !strings.Contains(string(read), `"left":7`) {
		t.Errorf("token %s, %v", read, err)
	}
}

func TestSelectors(t *testing.T) {
	w := start(t)
	for i, node := range []string{"", "n1", "n1", "n2"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Labels: map[string]string{"i": fmt.Sprint(i), "app": "x"}}}
		p.Spec.NodeName = node
		create(w, pods, p)
	}
	for _, x := range []struct{ labels, fields, want string }{
		{"i=1", "", "p1"}, {"i!=1", "", "p0 p2 p3"}, {"i in (1,3)", "", "p1 p3"}, {"!i", "", ""}, {"app=x,i>1", "", "p2 p3"},
		{"i in (1", "", "BadRequest"}, {",", "", "BadRequest"},
		{"", "spec.nodeName=n1", "p1 p2"}, {"", "spec.nodeName=", "p0"}, {"", "spec.nodeName!=n1", "p0 p3"},
		{"i=2", "spec.nodeName=n1", "p2"}, {"", "metadata.name=p3", "p3"}, {"", "metadata.name!=p3", "p0 p1 p2"},
		{"", "metadata.name=p3,metadata.name=p2", ""}, {"", "metadata.namespace=other", "BadRequest"},
		{"", "spec.bogus=x", "BadRequest"}, {"", "status.phase=Running", ""}, {"", "spec.nodeName=n1,status.phase=", "p1 p2"},
	} {
		t.Run(x.labels, func(t *testing.T) {
			l, err := w.list(pods, metav1.ListOptions{LabelSelector: x.labels, FieldSelector: x.fields})
			got := reason(err)
			if err == nil {
				got = names(l)
			}
			if x.fields == "metadata.namespace=other" {
				x.want = "" // another namespace than the request's: nothing
				if err != nil {
					x.want = "BadRequest" // the kind of this test does not offer the field
				}
			}
			if got != x.want {
				t.Errorf("labels %q fields %q: got %q (%v), want %q", x.labels, x.fields, got, err, x.want)
			}
		})
	}
}

func TestListAllNamespaces(t *testing.T) { synctest.Test(t, listAllNamespaces) }

func listAllNamespaces(t *testing.T) {
	w := start(t)
	for _, ns := range []string{"a", "a-b", "a0", "b"} {
		for _, n := range []string{"x", "y"} {
			r := w.ask(configMaps, "")
			r.Namespace = ns
			if _, err := w.Create(t.Context(), r, configMap(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for opts := (metav1.ListOptions{Limit: 3}); ; {
		r := w.ask(configMaps, "")
		r.Namespace = ""
		l, err := w.List(t.Context(), r, &opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range l.Entries {
			got = append(got, e.Object.GetNamespace()+"/"+e.Object.GetName())
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			break
		}
		create(w, configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "z"}}) // so that pages come from the past
	}
	if want := "a-b/x a-b/y a/x a/y a0/x a0/y b/x b/y"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}

func TestGetVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		create(w, configMaps, configMap("a"))
		for rv, want := range map[string]string{"": "", "0": "", "1": "", "x": "500", "99999": "Timeout ResourceVersionTooLarge "} {
			if _, err := w.Get(t.Context(), w.ask(configMaps, "a"), &metav1.GetOptions{ResourceVersion: rv}); reason(err) != want {
				t.Errorf("rv %q: %v", rv, err)
			}
		}
	})
}

// A page that is full goes on when anything comes after it, whether it is chosen or not; a single object has no second page.
func TestFullPagesGoOn(t *testing.T) {
	w := start(t)
	for _, name := range []string{"a", "b", "c"} {
		c := configMap(name)
		c.Labels = map[string]string{"n": name}
		create(w, configMaps, c)
	}
	past, err := w.list(configMaps, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(w, configMaps, configMap("d"))
	for _, test := range []struct {
		labels, fields string
		past, goesOn   bool
	}{
		{labels: "n=a", goesOn: true}, {labels: "n=b", goesOn: true}, {labels: "n=c", goesOn: true}, {labels: "n=d"},
		{fields: "metadata.name=a"}, {labels: "n=b", past: true, goesOn: true}, {labels: "n=c", past: true},
		{fields: "metadata.name=a", past: true},
	} {
		t.Run(test.labels, func(t *testing.T) {
			opts := metav1.ListOptions{Limit: 1, LabelSelector: test.labels, FieldSelector: test.fields}
			if test.past {
				opts.ResourceVersion, opts.ResourceVersionMatch = strconv.FormatInt(past.Revision, 10), metav1.ResourceVersionMatchExact
			}
			l, err := w.list(configMaps, opts)
			if err != nil || (l.Continue != "") != test.goesOn || l.Remaining != nil {
				t.Errorf("%+v: %+v, %v", test, l, err)
			}
		})
	}
}
