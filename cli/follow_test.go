package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/resource"
)

func TestStanding(t *testing.T) {
	three := int32(3)
	for _, tt := range []struct {
		name  string
		obj   resource.Object
		done  bool
		words string
		fails bool
	}{
		{"deployment", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: appsv1.DeploymentStatus{Replicas: 3,
			UpdatedReplicas: 3, AvailableReplicas: 2}},
			false, "2 of 3 available", false},
		{"one replica too many", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &three},
			Status: appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 3}}, false, "3 available", false},
		{"not seen yet", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, false, "0 available", false},
		{"partitioned", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: appsv1.StatefulSetStatus{Replicas: 3,
			ReadyReplicas: 3, UpdatedReplicas: 1,
			CurrentRevision: "a", UpdateRevision: "b"}}, false, "3 ready", false},
		{"job", &batchv1.Job{Status: batchv1.JobStatus{Active: 1, Succeeded: 2}}, false, "1 pods run, 2 succeeded, 0 failed", false},
		{"failed job", &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed,
			Status: corev1.ConditionTrue}}}}, true, "it failed", true},
		{"pod", &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, false, "it is Pending and not ready", false},
		{"failed pod", &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, true, "it failed", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, words, err := standing(tt.obj)
			if done != tt.done || words != tt.words || (err != nil) != tt.fails {
				t.Errorf("%s: %v, %q, %v", tt.name, done, words, err)
			}
		})
	}
}

func TestWorkload(t *testing.T) {
	for word, want := range map[string]string{"web": "deployment web", "deploy/web": "deployment web",
		"deployment.apps/web": "deployment web", "sts/db": "statefulset db",
		"Jobs/j": "job j", "po/p": "pod p"} {
		t.Run(word, func(t *testing.T) {
			k, name, err := workload(word)
			if err != nil || k.Info().Singular+" "+name != want {
				t.Errorf("%s: %v %s %v, want %s", word, k, name, err, want)
			}
		})
	}
	if _, _, err := workload("statefulst/db"); err == nil || !strings.Contains(err.Error(), "did you mean statefulset?") {
		t.Error(err)
	}
	if _, _, err := workload("certificate/c"); err == nil || !strings.Contains(err.Error(), "kloop why certificate/c") {
		t.Error(err)
	}
}

// Any workload is followed: what comes, what goes, and one that is not there is said at once.
func TestFollow(t *testing.T) {
	d := newDesk(t, filepath.Join(t.TempDir(), "clusters"))
	d.run(0, "create f --sim-nodes 2")
	d.wants(d.run(1, "follow nope --timeout 1s"), "deployment/nope is not there in namespace default; waiting for it, 1s at most",
		"kloop why deployment/nope -n default says more")
	d.wants(d.run(1, "follow web -A"), "leave -A away")
	a := d.asker("kloop-f")
	post := func(path, body string) {
		t.Helper()
		if err := a.Raw.Post().AbsPath(path).SetHeader("Content-Type",
			"application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	const pods = `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"c","image":"x"}]}}`
	post("/api/v1/namespaces/default/services", `{"metadata":{"name":"db"},"spec":{"selector":{"a":"b"},"ports":[{"port":80}]}}`)
	post("/apis/apps/v1/namespaces/default/statefulsets", `{"metadata":{"name":"db"},"spec":{"serviceName":"db","replicas":2,`+pods+`}}`)
	d.wants(d.run(0, "follow sts/db"), "statefulset/db wants 2 replicas", "  pod/db-1 made by the statefulset loop", "  pod/db-1 ready",
		"endpoint/db-0 behind service db", "statefulset/db is complete: 2 ready", "  service/db at http://10.96.")
	post("/apis/batch/v1/namespaces/default/jobs",
		`{"metadata":{"name":"once"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}`)
	d.wants(d.run(0, "follow job/once"), "made by the job loop", "job/once is complete: 1 succeeded")

	var out bytes.Buffer
	told := &story{out: &out, form: new(ask.Output),
		here: []string{"statefulset/db", "  pod/db-0", "  pod/db-1"}, now: []string{"statefulset/db", "  pod/db-0"}}
	told.goneSince()
	d.wants(out.String(), "  pod/db-1 is gone")
}
