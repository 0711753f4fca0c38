package why_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kit/whole"
)

// TestContexts asks two clusters at once, of which one has a pod that no node takes, and a third that is not there.
func TestContexts(t *testing.T) {
	merged := clientcmdapi.NewConfig()
	for _, name := range []string{"well", "ill"} {
		c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), SimNodes: 1, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		rest, err := c.Rest()
		if err != nil {
			t.Fatal(err)
		}
		cs, err := kubernetes.NewForConfig(rest)
		if err != nil {
			t.Fatal(err)
		}
		eventually.Sees(t, time.Minute, "the node reports", func() (bool, any) {
			n, err := cs.CoreV1().Nodes().Get(t.Context(), "sim-0", metav1.GetOptions{})
			return err == nil && len(n.Status.Conditions) > 0, err
		})
		merged.Clusters[name] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
		merged.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}
		merged.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
		if name == "well" {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "picky"}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"no": "node"},
			Containers: []corev1.Container{{Name: "c", Image: "a:1"}}}}
		if _, err := cs.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	merged.CurrentContext = "well"
	config := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*merged, config); err != nil {
		t.Fatal(err)
	}
	ask := func(code int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		args = append([]string{"kloop", "why", "--kubeconfig", config}, args...)
		if got := cli.Run(t.Context(), strings.NewReader(""), &out, &out, args); got != code {
			t.Fatalf("%v ends with %d:\n%s", args, got, &out)
		}
		return out.String()
	}
	ask(0, "--context", "well")
	w := &world{t: t}
	w.until("the pod to be told of", func() error {
		var out bytes.Buffer
		args := []string{"kloop", "why", "--kubeconfig", config, "--context", "ill", "--wait", "--timeout", "1ms"}
		if got := cli.Run(t.Context(), strings.NewReader(""), &out, io.Discard, args); got != 3 || !strings.Contains(out.String(), "pod/picky") {
			return fmt.Errorf("it ends with %d: %s", got, &out) // at first it may be the node that is told of
		}
		return nil
	})
	text := ask(3, "--context", "well,ill")
	first, second, ok := strings.Cut(text, "context ill:")
	if !ok || !strings.HasPrefix(first, "context well:") || strings.Contains(first, "picky") || !strings.Contains(second, "pod/picky") {
		t.Error(text)
	}
	if text := ask(1, "--context", "gone,ill"); !strings.Contains(text, "context gone: ") || !strings.Contains(text, "pod/picky") {
		t.Error(text)
	}
	ask(2, "--context", "well,ill", "--watch")
	dec := json.NewDecoder(strings.NewReader(ask(3, "--context", "well,ill", "-o", "json")))
	for _, want := range []string{"well", "ill"} {
		var one struct{ Context string }
		if err := dec.Decode(&one); err != nil || one.Context != want {
			t.Errorf("%q, %v", one.Context, err)
		}
	}
}
