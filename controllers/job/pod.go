package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
)

const (
	indexKey   = batchv1.JobCompletionIndexAnnotation
	failedKey  = batchv1.JobIndexFailureCountAnnotation
	ignoredKey = batchv1.JobIndexIgnoredFailureCountAnnotation
	indexEnv   = "JOB_COMPLETION_INDEX"
)

// A start is a pod to make. Its index is -1 when the job has none.
type start struct {
	index   int
	failed  int // failures of the index so far
	ignored int
}

// newPod makes a pod of the job.
func newPod(j *batchv1.Job, s start) *corev1.Pod {
	p := pods.FromTemplate(kinds.Jobs, j, &j.Spec.Template)
	p.Finalizers = append(p.Finalizers, batchv1.JobTrackingFinalizer)
	if s.index < 0 {
		return p
	}
	index := strconv.Itoa(s.index)
	p.Annotations, p.Labels = with(p.Annotations, indexKey, index), with(p.Labels, indexKey, index)
	if j.Spec.BackoffLimitPerIndex != nil {
		p.Annotations[failedKey] = strconv.Itoa(s.failed)
		if s.ignored > 0 {
			p.Annotations[ignoredKey] = strconv.Itoa(s.ignored)
		}
	}
	p.Spec.Hostname = fmt.Sprintf("%s-%d", j.Name, s.index)
	const longest = 63 - 5 // room for what the server appends
	p.GenerateName = j.Name + "-" + index + "-"
	if len(p.GenerateName) > longest {
		p.GenerateName = j.Name[:longest-len(index)-2] + "-" + index + "-"
	}
	addIndexEnv(p.Spec.InitContainers)
	addIndexEnv(p.Spec.Containers)
	return p
}

func with(m map[string]string, k, v string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// addIndexEnv tells the containers their index, unless they set the variable themselves.
func addIndexEnv(list []corev1.Container) {
	for i := range list {
		if slices.ContainsFunc(list[i].Env, func(e corev1.EnvVar) bool { return e.Name == indexEnv }) {
			continue
		}
		list[i].Env = append(list[i].Env, corev1.EnvVar{Name: indexEnv, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + indexKey + "']"}}})
	}
}

// indexOf is the pod's completion index, -1 when it has none that is valid.
func indexOf(p *corev1.Pod, completions int) int {
	n, err := strconv.Atoi(p.Annotations[indexKey])
	if err != nil || n < 0 || n >= completions {
		return -1
	}
	return n
}

func count(p *corev1.Pod, key string) int {
	n, err := strconv.Atoi(p.Annotations[key])
	if err != nil {
		return 0
	}
	return max(n, 0)
}
