package workloads

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

func TestNews(t *testing.T) {
	deployment := func(image string, ready int32) *appsv1.Deployment {
		d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return d
	}
	job := func(done, failed int32) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Succeeded: done, Failed: failed}}
	}
	for name, tt := range map[string]struct {
		old, now resource.Object
		want     []string
	}{
		"rolled":    {deployment("i:1", 3), deployment("i:2", 3), []string{"image i:2"}},
		"ready":     {deployment("i:1", 1), deployment("i:1", 3), []string{"ready 1 → 3"}},
		"job":       {job(0, 1), job(2, 1), []string{"succeeded 0 → 2"}},
		"the same":  {job(1, 1), job(1, 1), nil},
		"not known": {&corev1.Pod{}, &corev1.Pod{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.DeleteFunc(News(tt.old, tt.now), func(s string) bool { return s == "" })
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
