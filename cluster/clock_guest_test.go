//go:build linux

package cluster_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/test/vm"
)

// TestClockSteps sets the clock of a machine on which a server with etcd runs, by years, forwards and backwards. Who comes with a
// certificate of the day is served, loops go on, nothing is lost, and a certificate that has ended opens nothing. The clock is a guest's.
func TestClockSteps(t *testing.T) {
	t.Attr("retry", "never")
	if !vm.Run(t, vm.Config{Memory: 3072, Timeout: 10 * time.Minute}) {
		return
	}
	const day = 24 * time.Hour
	c := start(t, cluster.Config{DataDir: t.TempDir()})
	first := config(t, c)
	pair, err := tls.X509KeyPair(first.CertData, first.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	served := func(name string) {
		t.Helper()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		cs := clientset(t, config(t, c))
		deployments := cs.AppsV1().Deployments("default")
		if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s, at %v: %v", name, time.Now(), err)
		}
		eventually(t, "a pod is made for "+name, func(ctx context.Context) (bool, error) {
			pods, err := cs.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			return err == nil && len(pods.Items) == 1, nil
		})
	}
	served("begin")
	for i, step := range []time.Duration{400 * day, -399 * day, 5 * 365 * day, -4 * 365 * day, time.Hour} {
		tv := unix.NsecToTimeval(time.Now().Round(0).Add(step).UnixNano())
		if err := unix.Settimeofday(&tv); err != nil {
			t.Fatal(err)
		}
		served(fmt.Sprint("step-", i))
		list, err := clientset(t, config(t, c)).AppsV1().Deployments("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != i+2 {
			t.Errorf("after a step of %v there are %d deployments, %v", step, len(list.Items), err)
		}
		_, err = clientset(t, first).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if ended := time.Now().After(pair.Leaf.NotAfter); ended != (err != nil) {
			t.Errorf("after a step of %v, with a certificate that ends at %v: %v", step, pair.Leaf.NotAfter, err)
		}
	}
}
