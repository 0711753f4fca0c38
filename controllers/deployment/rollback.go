package deployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// rollbackTo is the revision that old clients ask to go back to; 0 is the one before. ok is false when nobody does.
func rollbackTo(d *appsv1.Deployment) (rev int64, ok bool) {
	rev, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return rev, err == nil
}

// rollback does what old clients ask for, and takes the wish away. Those of today change the template themselves.
func rollback(ctx context.Context, c *loop.Ctx, w world, rev int64) error {
	next, reason, text := goBack(w, rev)
	if err := c.Update(ctx, kinds.Deployments, next); err != nil {
		return err
	}
	typ := corev1.EventTypeWarning
	if reason == "DeploymentRollback" {
		typ = corev1.EventTypeNormal
	}
	c.Event(kinds.Deployments, w.d, typ, reason, "%s", text)
	return nil
}

// goBack is pure: the deployment with the template and the annotations of a revision, and what to tell.
func goBack(w world, rev int64) (next *appsv1.Deployment, reason, text string) {
	next = resource.Clone(w.d)
	delete(next.Annotations, appsv1.DeprecatedRollbackTo)
	if rev == 0 {
		if rev = lastRevision(w.all()); rev == 0 {
			return next, "DeploymentRollbackRevisionNotFound", "Unable to find last revision."
		}
	}
	at := slices.IndexFunc(w.all(), func(rs *appsv1.ReplicaSet) bool { return revision(rs) == rev })
	if at < 0 {
		return next, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."
	}
	rs := w.all()[at]
	if sameTemplate(&rs.Spec.Template, &w.d.Spec.Template) {
		return next, "DeploymentRollbackTemplateUnchanged",
			fmt.Sprintf("The rollback revision contains the same template as current deployment %q", w.d.Name)
	}
	next.Spec.Template = *bare(&rs.Spec.Template).DeepCopy()
	maps.DeleteFunc(next.Annotations, func(k, _ string) bool { return handedDown(k) })
	for k, v := range rs.Annotations {
		if handedDown(k) {
			next.Annotations[k] = v
		}
	}
	return next, "DeploymentRollback", fmt.Sprintf("Rolled back deployment %q to revision %d", w.d.Name, rev)
}

// lastRevision is the highest but one.
func lastRevision(sets []*appsv1.ReplicaSet) (last int64) {
	top := int64(0)
	for _, rs := range sets {
		switch rev := revision(rs); {
		case rev >= top:
			last, top = top, rev
		case rev > last:
			last = rev
		}
	}
	return last
}
