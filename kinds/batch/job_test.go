package batch_test

import (
	"maps"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/batch"
)

// A job has the labels of its pods if it brings none, and none of the generated ones if it brings its own, even the same.
func TestLabelsOfJob(t *testing.T) {
	all := map[string]string{"a": "b", "job-name": "j", "batch.kubernetes.io/job-name": "j", "controller-uid": "u",
		"batch.kubernetes.io/controller-uid": "u"}
	for _, c := range []struct {
		name           string
		own, pod, want map[string]string
	}{
		{"none", nil, map[string]string{"a": "b"}, all},
		{"the same", map[string]string{"a": "b"}, map[string]string{"a": "b"}, map[string]string{"a": "b"}},
		{"others", map[string]string{"x": "y"}, map[string]string{"a": "b"}, map[string]string{"x": "y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u", Labels: c.own}}
			j.Spec.Template.Labels = c.pod
			batch.Jobs.Default(j)
			batch.Jobs.Prepare(j, nil)
			if !maps.Equal(j.Labels, c.want) || !maps.Equal(j.Spec.Template.Labels, all) {
				t.Errorf("got %v and, of its pods, %v", j.Labels, j.Spec.Template.Labels)
			}
		})
	}
}
