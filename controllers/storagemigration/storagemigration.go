// Package storagemigration writes all objects of a resource anew, so that none is stored in an old form.
//
//	reads   StorageVersionMigration, the objects of the resource that it names
//	writes  those objects: an apply patch that changes nothing; StorageVersionMigration: status;
//	        CustomResourceDefinition: status.storedVersions
//	rule    every object that was stored before the migration began is stored in today's form when it has succeeded
package storagemigration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

type migration = *storagemigrationv1.StorageVersionMigration

const (
	running   = string(storagemigrationv1.MigrationRunning)
	succeeded = string(storagemigrationv1.MigrationSucceeded)
	failed    = string(storagemigrationv1.MigrationFailed)
)

// reasons are upstream's.
var reasons = map[string]string{running: "MigrationRunning", succeeded: "StorageVersionMigrationSucceeded",
	failed: "StorageVersionMigrationFailed"}

const (
	isRunning = "The migration is running"
	completed = "Migration completed"
	// patience: so long a resource that is to be migrated may take to be there.
	patience = time.Minute
)

// Controller returns the loop in a cluster with such features: wake on a migration.
func Controller(on *features.Set) *loop.Controller[migration] {
	return &loop.Controller[migration]{
		Name: "storage-version-migrator",
		For:  kinds.StorageVersionMigrations,
		Skip: func(m migration) bool {
			return meta.IsStatusConditionTrue(m.Status.Conditions, succeeded) || meta.IsStatusConditionTrue(m.Status.Conditions, failed)
		},
		Writes:    loop.Anything,
		Workers:   1,
		Reconcile: teller{counts: on.AtLeast(37)}.reconcile,
	}
}

// teller is the loop at work. It tells how many objects there are to migrate if it counts.
type teller struct{ counts bool }

func (t teller) reconcile(ctx context.Context, c *loop.Ctx, m migration) (time.Duration, error) {
	if m.DeletionTimestamp != nil {
		return 0, nil
	}
	if !meta.IsStatusConditionTrue(m.Status.Conditions, running) {
		return 0, tell(ctx, c, m, running, isRunning)
	}
	k, ok := c.Client().Kinds().GR(schema.GroupResource(m.Spec.Resource))
	if !ok {
		if left := m.CreationTimestamp.Add(patience).Sub(c.Now()); left > 0 {
			return left, nil
		}
		return 0, tell(ctx, c, m, failed, "resource does not exist in discovery")
	}
	if i := k.Info(); slices.ContainsFunc(needed, func(verb string) bool { return !slices.Contains(i.Verbs, verb) }) {
		return 0, tell(ctx, c, m, failed, fmt.Sprintf("resource %q does not support discovery operations: %v",
			i.GVK.GroupVersion().WithResource(i.Plural), needed))
	}
	if m.Status.ResourceVersion == "" { // the resource was not there
		return 0, tell(ctx, c, m, running, isRunning)
	}
	began, err := strconv.ParseInt(m.Status.ResourceVersion, 10, 64)
	if err != nil {
		return 0, tell(ctx, c, m, failed, fmt.Sprintf("status.resourceVersion %q is no number", m.Status.ResourceVersion))
	}
	old, all := plan(c, k, began)
	done, err := loop.Batch(len(old), func(i int) error { return rewrite(ctx, c, k, old[i]) })
	if err != nil {
		return 0, t.stopped(ctx, c, m, err, len(old)-done, all)
	}
	if err := forget(ctx, c, k); err != nil {
		return 0, err
	}
	if t.counts {
		return 0, tell(ctx, c, m, succeeded, completed)
	}
	return 0, tell(ctx, c, m, succeeded, "")
}

// needed are the verbs without which a resource can't be migrated.
var needed = []string{"update", "patch", "list"}

// stopped notes that an object could not be written. What may pass keeps the migration going.
func (t teller) stopped(ctx context.Context, c *loop.Ctx, m migration, err error, left, all int) error {
	var refused apierrors.APIStatus
	passes := !errors.As(err, &refused) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
	switch {
	case passes && !t.counts:
		return err
	case passes:
		return errors.Join(err, tell(ctx, c, m, running,
			fmt.Sprintf("%s, %d/%d objects not yet migrated; transient error: %s", isRunning, left, all, err)))
	case t.counts:
		return tell(ctx, c, m, failed, fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %s", left, all, err))
	}
	return tell(ctx, c, m, failed, fmt.Sprintf("migration encountered unhandled error: %s", err))
}

// plan lists the objects that nobody has written since the migration began, and counts all.
func plan(read resource.Reader, k resource.Kind, began int64) (old []resource.Object, all int) {
	for obj := range read.Each(k, "") {
		all++
		if resource.Revision(obj) <= began {
			old = append(old, obj)
		}
	}
	return old, all
}

// rewrite stores the object as it is. Somebody else's write does as well, and so does a deletion.
func rewrite(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object) error {
	gvk := k.Info().GVK
	data, err := json.Marshal(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{
		"name": obj.GetName(), "uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion()}})
	if err != nil {
		return err
	}
	err = c.Patch(ctx, k, obj, client.Patch{Type: types.ApplyPatchType, Data: data, Manager: "storage-version-migrator-controller"})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// forget takes the versions in which nothing is stored any more from a definition's list.
func forget(ctx context.Context, c *loop.Ctx, k resource.Kind) error {
	gr := k.Info().GR()
	crd := resource.Get(c, kinds.CustomResourceDefinitions, "", gr.Resource+"."+gr.Group)
	if !k.Info().Custom || crd == nil {
		return nil
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at < 0 || slices.Equal(crd.Status.StoredVersions, []string{crd.Spec.Versions[at].Name}) {
		return nil
	}
	next := resource.Clone(crd)
	next.Status.StoredVersions = []string{crd.Spec.Versions[at].Name}
	return c.UpdateStatus(ctx, kinds.CustomResourceDefinitions, next)
}

// tell notes how the migration goes.
func tell(ctx context.Context, c *loop.Ctx, m migration, condition, message string) error {
	next := resource.Clone(m)
	if next.Status.ResourceVersion == "" {
		k, ok := c.Client().Kinds().GR(schema.GroupResource(m.Spec.Resource))
		if ok {
			next.Status.ResourceVersion = strconv.FormatInt(c.Revision(k), 10)
		}
	}
	if condition != running && meta.FindStatusCondition(next.Status.Conditions, running) != nil {
		meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{Type: running, Status: metav1.ConditionFalse,
			Reason: "MigrationCompleted", Message: completed, ObservedGeneration: m.Generation,
			LastTransitionTime: metav1.NewTime(c.Now())})
	}
	meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue,
		Reason:  reasons[condition],
		Message: message, LastTransitionTime: metav1.NewTime(c.Now())})
	return c.UpdateStatus(ctx, kinds.StorageVersionMigrations, next)
}
