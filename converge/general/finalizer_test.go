package general

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// TestJobTracking: the finalizer is written out so that a program need not link the types of jobs for it.
func TestJobTracking(t *testing.T) {
	if jobTracking != batchv1.JobTrackingFinalizer {
		t.Errorf("%q, and Kubernetes' is %q", jobTracking, batchv1.JobTrackingFinalizer)
	}
}
