package cluster_test

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/past"
)

// TestPastTogether asks each of two servers what was done by one of them. Who did it the other one asks by addresses, of which both
// have the same here: TestWritesOf does.
func TestPastTogether(t *testing.T) {
	t.Parallel()
	a, b, _ := joined(t)
	at, from := clientset(t, config(t, a)), clientset(t, config(t, b))
	began := time.Now()
	cm := must[*corev1.ConfigMap](t)(at.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("told"), metav1.CreateOptions{}))
	cm.Data["k"] = "w"
	must[*corev1.ConfigMap](t)(at.CoreV1().ConfigMaps("default").Update(t.Context(), cm, metav1.UpdateOptions{}))
	for user, cs := range map[string]*kubernetes.Clientset{"kubernetes-admin": at, "": from} {
		t.Run(user, func(t *testing.T) {
			q := url.Values{"from": {began.UTC().Format(time.RFC3339Nano)}, "resource": {"configmaps"}, "name": {"told"}}
			data, err := cs.RESTClient().Get().RequestURI(past.Page + "?" + q.Encode()).DoRaw(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var out past.Answer
			if err := json.Unmarshal(data, &out); err != nil {
				t.Fatal(err)
			}
			if len(out.Steps) != 2 || out.Steps[1].User != user || len(out.Steps[1].Fields) != 1 ||
				out.Steps[1].Fields[0].Text() != "data.k: v → w" {
				t.Errorf("it is told as %s", data)
			}
		})
	}
}
