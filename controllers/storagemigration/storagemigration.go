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
var reasons = map[string]string{running: "StorageVersionMigrationInProgress", succeeded: "StorageVersionMigrationSucceeded",
	failed: "StorageVersionMigrationFailed"}

// Controller is the loop: wake on a migration.
var Controller = &loop.Controller[migration]{
	Name: "storage-version-migrator",
	For:  kinds.StorageVersionMigrations,
	Skip: func(m migration) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, succeeded) || meta.IsStatusConditionTrue(m.Status.Conditions, failed)
	},
	Writes:    loop.Anything,
	Workers:   1,
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, m migration) (time.Duration, error) {
	if m.DeletionTimestamp != nil {
		return 0, nil
	}
	gr := schema.GroupResource(m.Spec.Resource)
	k, ok := c.Client().Kinds().GR(gr)
	if !ok || !slices.Contains(k.Info().Verbs, "patch") {
		return 0, tell(ctx, c, m, failed, fmt.Sprintf("%s can't be migrated: no such resource is stored here", gr))
	}
	if !meta.IsStatusConditionTrue(m.Status.Conditions, running) {
		return 0, tell(ctx, c, m, running, "")
	}
	began, err := strconv.ParseInt(m.Status.ResourceVersion, 10, 64)
	if err != nil {
		return 0, tell(ctx, c, m, failed, fmt.Sprintf("status.resourceVersion %q is no number", m.Status.ResourceVersion))
	}
	old := plan(c, k, began)
	_, err = loop.Batch(len(old), func(i int) error { return rewrite(ctx, c, k, old[i]) })
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return 0, tell(ctx, c, m, failed, err.Error())
	case err != nil:
		return 0, err
	}
	if err := forget(ctx, c, k); err != nil {
		return 0, err
	}
	return 0, tell(ctx, c, m, succeeded, "")
}

// plan lists the objects that nobody has written since the migration began.
func plan(read resource.Reader, k resource.Kind, began int64) (old []resource.Object) {
	for obj := range read.Each(k, "") {
		if rev, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64); err != nil || rev <= began {
			old = append(old, obj)
		}
	}
	return old
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
			Reason:             reasons[condition],
			LastTransitionTime: metav1.NewTime(c.Now())})
	}
	meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue,
		Reason:  reasons[condition],
		Message: message, LastTransitionTime: metav1.NewTime(c.Now())})
	return c.UpdateStatus(ctx, kinds.StorageVersionMigrations, next)
}
