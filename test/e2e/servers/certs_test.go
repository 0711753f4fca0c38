//go:build e2e

package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// certs runs kloop certs beside a server.
func (m *machine) certs(args ...string) (string, error) {
	m.t.Helper()
	args = slices.Concat([]string{"--net=/run/netns/" + m.ns, kloop(m.t), "certs"}, args,
		[]string{"--kubeconfig", filepath.Join(m.dir, "admin.kubeconfig")})
	out, err := exec.CommandContext(m.t.Context(), "nsenter", args...).CombinedOutput()
	return string(out), err
}

// TestExchangeKeys exchanges the authority of three servers while clients write to all of them: no write fails, every server has the
// new keys from the one that was asked, old certificates open nothing at the end, and each server can be started anew.
func TestExchangeKeys(t *testing.T) {
	m := three(t)
	published(t, m[0], 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var before []*kubernetes.Clientset
	for _, x := range m {
		old := x.client
		before = append(before, old)
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", x.name, n)}}
				if _, err := old.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
					t.Errorf("%s: %v", cm.Name, err)
				}
			}
		})
	}
	if out, err := m[0].certs("rotate"); err != nil {
		t.Fatalf("rotate: %v\n%s", err, out)
	}
	exchanged(t, m[2], true)
	if out, err := m[1].certs("finish"); err == nil || !strings.Contains(out, "in the last") {
		t.Errorf("finish while old certificates are used: %v\n%s", err, out)
	}
	stop()
	load.Wait()
	for _, x := range m {
		x.connect()
	}
	if out, err := m[1].certs("finish", "--force"); err != nil {
		t.Fatalf("finish: %v\n%s", err, out)
	}
	exchanged(t, m[0], false)
	for i, x := range m {
		works(t, x, fmt.Sprint("new-", i))
		if _, err := before[i].CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s still believes certificates of before", x.name)
		}
	}
	for i, x := range m {
		x.stop()
		x.start()
		published(t, x, 3)
		works(t, x, fmt.Sprint("again-", i))
	}
}

// exchanged checks that all servers sign with one authority, and whether they still believe another one.
func exchanged(t *testing.T, m *machine, both bool) {
	t.Helper()
	out, err := m.certs("list", "-o", "json")
	var told struct {
		Items []struct {
			Server, Error string
			Exchanging    bool
			Authority     []byte
		}
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		t.Fatalf("list: %v\n%s", err, out)
	}
	list := told.Items
	if err != nil || len(list) != 3 {
		t.Fatalf("%d servers, %v", len(list), err)
	}
	for _, s := range list {
		if s.Error != "" || s.Exchanging != both || string(s.Authority) != string(list[0].Authority) {
			t.Errorf("%s: exchanging is %t, error %q, the authority of the others is its own: %t", s.Server, s.Exchanging, s.Error,
				string(s.Authority) == string(list[0].Authority))
		}
	}
}
