package operator

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// With torn all writes meet a conflict although nobody else writes.
type torn struct{ client.Client }

// Get implements client.Client.
func (torn) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// Update implements client.Client.
func (torn) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "postgresclusters"}, "c", nil)
}

// TestConflict: after a conflict that no change follows, the cluster is looked at again all the same.
func TestConflict(t *testing.T) {
	r := &Reconciler{Client: torn{}}
	result, err := r.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("after a conflict: %+v, %v", result, err)
	}
}

// TestBackupState: status says when the newest backup was, and how the last attempt ended.
func TestBackupState(t *testing.T) {
	w := world(reports{"c-1": primary("c-2", "c-3"), "c-2": {}, "c-3": {}})
	status := w.Cluster.Status.DeepCopy()
	is := func(what, schedule, want string) {
		t.Helper()
		w.Cluster.Spec.BackupSchedule = schedule
		decideConditions(w, status)
		got := "none"
		if c := meta.FindStatusCondition(status.Conditions, "LastBackupSucceeded"); c != nil {
			got = string(c.Status) + " " + c.Reason
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	is("before the first", "0 2 * * *", "none")
	is("a schedule that is none", "at night", "False BadSchedule")
	at := metav1.Unix(1000, 0)
	w.LastBackup, w.LastEnded = &at, &v1alpha1.PostgresBackup{Status: v1alpha1.PostgresBackupStatus{Phase: v1alpha1.BackupCompleted}}
	is("after the first", "0 2 * * *", "True Completed")
	w.LastEnded = &v1alpha1.PostgresBackup{Status: v1alpha1.PostgresBackupStatus{Phase: v1alpha1.BackupFailed, Message: "no room"}}
	is("after one that failed", "0 2 * * *", "False BackupFailed")
	w.LastBackup = nil
	is("backups were removed", "0 2 * * *", "False BackupFailed")
	if !status.LastBackup.Equal(&at) {
		t.Errorf("the last backup was at %v, want %v", status.LastBackup, at)
	}
	is("no backups are wanted any more", "", "none")
}
