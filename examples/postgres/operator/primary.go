package operator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// Patience says how long the operator waits for instances. It must be no shorter than what they are bounded by.
type Patience struct {
	Silent  time.Duration // a held Lease without a renewal: its holder is lost
	Vacant  time.Duration // a Lease that was given up and that nobody takes
	Ballots time.Duration // an election, for those that could still answer
}

// Usual is the patience outside of tests.
var Usual = Patience{Silent: 6 * time.Second, Vacant: 8 * time.Second, Ballots: 3 * time.Second}

// decidePrimary changes status to what it should be: who is to be primary, and for whom commits wait. Whatever it rests on may be old,
// but status: it is written only if nobody wrote since. What instances report with an epoch does not change while that epoch lasts.
func decidePrimary(w World, status *v1alpha1.PostgresClusterStatus) (again time.Duration) {
	switch {
	case status.TargetPrimary == "":
		status.TargetPrimary = first(w)
	case status.Election != nil:
		if winner := elect(w); winner != "" {
			status.TargetPrimary, status.Election = winner, nil
		} else {
			again = time.Second
		}
	case w.lost():
		status.Epoch++
		former := []string{status.TargetPrimary}
		if status.CurrentPrimary != "" && status.CurrentPrimary != status.TargetPrimary {
			former = append(former, status.CurrentPrimary)
		}
		status.Election = &v1alpha1.Election{Reason: w.loss(), Since: metav1.MicroTime{Time: w.Now}, Former: former}
		again = time.Second
	case w.leads():
		led(w, status)
		if next := successor(w); next != "" {
			status.TargetPrimary = next // it takes over when the present one has given up the Lease
		}
	case w.leaves(status.TargetPrimary):
		if next := successor(w); next != "" {
			status.TargetPrimary = next
		}
		again = time.Second
	default:
		again = time.Second
	}
	return again
}

// first is the primary of a new cluster: the last one of a cluster of this name whose claims were retained, or the first instance.
func first(w World) string {
	for _, name := range slices.Sorted(maps.Keys(w.Claims)) {
		if w.Claims[name].Labels[v1alpha1.RoleLabel] == v1alpha1.Primary {
			return name
		}
	}
	return w.Cluster.InstanceName(1)
}

// led notes what a primary says of itself.
func led(w World, status *v1alpha1.PostgresClusterStatus) {
	r := w.report(status.TargetPrimary)
	if status.CurrentPrimary != status.TargetPrimary || status.Timeline != r.Timeline {
		status.CurrentPrimary, status.Timeline = status.TargetPrimary, r.Timeline
		status.LastPromotion = &metav1.Time{Time: w.Now.Truncate(time.Second)}
	}
	if status.SystemID == "" {
		status.SystemID = r.SystemID
	}
	status.Version = r.Version
	settleQuorum(w, status, r)
}

// settleQuorum changes for whom commits wait. One change must be in force before the next is decided: then there are never more
// than two that an election has to think of.
func settleQuorum(w World, status *v1alpha1.PostgresClusterStatus, r v1alpha1.Report) {
	inForce := same(r.Quorum, status.Quorum)
	if inForce {
		status.QuorumBefore = nil
	}
	want := wantedQuorum(w, r)
	if same(want, status.Quorum) || status.Quorum != nil && !inForce {
		return
	}
	status.QuorumBefore, status.Quorum = status.Quorum, want
}

func wantedQuorum(w World, r v1alpha1.Report) *v1alpha1.Quorum {
	me := w.Cluster.Status.TargetPrimary
	q := &v1alpha1.Quorum{Members: []string{me}}
	for _, name := range w.names() {
		if name == me {
			continue
		}
		switch w.Cluster.Spec.Synchronous {
		case v1alpha1.Required:
			q.Members = append(q.Members, name)
		case v1alpha1.Preferred:
			if slices.Contains(r.Streaming, name) {
				q.Members = append(q.Members, name)
			}
		}
	}
	slices.Sort(q.Members)
	if len(q.Members) > 1 {
		q.Number = 1
	}
	return q
}

func same(a, b *v1alpha1.Quorum) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Number == b.Number && slices.Equal(a.Members, b.Members)
}

// lost says whether the primary is lost, and somebody could take its place.
func (w World) lost() bool {
	status := w.Cluster.Status
	if status.SystemID == "" || w.Cluster.DeletionTimestamp != nil {
		return false
	}
	others := 0
	for name, p := range w.Pods {
		if name != status.TargetPrimary && stays(p) && w.report(name).SystemID == status.SystemID {
			others++
		}
	}
	return others > 0 && w.silent()
}

// silent says whether the Lease has not been renewed for so long that its holder has ended.
func (w World) silent() bool { return w.LeaseAge > w.limit() }

func (w World) limit() time.Duration {
	if w.vacant() {
		return w.Patience.Vacant
	}
	return w.Patience.Silent
}

func (w World) vacant() bool {
	return w.Lease == nil || w.Lease.Spec.HolderIdentity == nil || *w.Lease.Spec.HolderIdentity == ""
}

func (w World) loss() string {
	if w.vacant() {
		return "nobody holds the lease"
	}
	return fmt.Sprintf("%s has not renewed the lease", v1alpha1.HolderName(*w.Lease.Spec.HolderIdentity))
}

// leaves says whether an instance is about to be no more: it stops, and will not be back before its pod is made anew.
func (w World) leaves(name string) bool { return !stays(w.Pods[name]) }

// successor is the standby that should take over from a primary that leaves, is one too many, or is the only one of an older
// template; empty: nobody. It must have caught up, as far as the primary knows.
func successor(w World) string {
	status := w.Cluster.Status
	target := status.TargetPrimary
	r := w.report(target)
	if status.SystemID == "" || r.Role != v1alpha1.Primary || w.Cluster.DeletionTimestamp != nil {
		return ""
	}
	leaving := w.leaves(target) || w.Cluster.Ordinal(target) > w.Cluster.Instances()
	others := func(name string) bool { return name != target && w.outdated(name) }
	if !leaving && (!w.outdated(target) || !w.settled() || slices.ContainsFunc(w.names(), others)) {
		return ""
	}
	var best string
	for _, name := range w.names() {
		if name == target || !stays(w.Pods[name]) || !slices.Contains(r.Streaming, name) {
			continue
		}
		if !w.outdated(name) {
			return name
		}
		if best == "" && leaving {
			best = name
		}
	}
	return best
}

// elect returns the winner of the open election; empty: it is not decided yet. Only who reports its epoch is heard: they receive nothing
// any more, so a lost primary that still runs finds nobody to commit with.
func elect(w World) (winner string) {
	status := w.Cluster.Status
	var voters []string
	silent := false
	for _, name := range slices.Sorted(maps.Keys(w.Pods)) {
		if w.report(name).Epoch == status.Epoch {
			voters = append(voters, name)
		} else if stays(w.Pods[name]) && !(confirmed(status) && slices.Contains(status.Election.Former, name)) {
			silent = true
		}
	}
	if silent && w.ElectionAge < w.Patience.Ballots || missing(status, voters) != "" {
		return ""
	}
	ahead := func(a, b v1alpha1.Report) bool {
		return a.Timeline > b.Timeline || a.Timeline == b.Timeline && a.LSN > b.LSN
	}
	for _, name := range voters {
		if stays(w.Pods[name]) && (winner == "" || ahead(w.report(name), w.report(winner))) {
			winner = name
		}
	}
	for _, name := range voters { // one that leaves knows more: it is waited for
		if winner != "" && ahead(w.report(name), w.report(winner)) {
			return ""
		}
	}
	return winner
}

// confirmed says whether commits waited for standbys. Then the lost primary need not be waited for: what it acknowledged, others have.
func confirmed(status v1alpha1.PostgresClusterStatus) bool {
	some := func(q *v1alpha1.Quorum) bool { return q != nil && q.Number > 0 }
	return some(status.Quorum) && (status.QuorumBefore == nil || some(status.QuorumBefore))
}

// missing says who must be heard before nothing acknowledged can be lost; empty: enough were.
func missing(status v1alpha1.PostgresClusterStatus, voters []string) string {
	if len(voters) == 0 {
		return "any instance"
	}
	for _, q := range []*v1alpha1.Quorum{status.Quorum, status.QuorumBefore} {
		if q == nil || q.Number == 0 {
			continue
		}
		for _, lost := range status.Election.Former {
			if slices.Contains(voters, lost) {
				continue // it has all that it acknowledged
			}
			var silent []string
			for _, m := range q.Members {
				if m != lost && !slices.Contains(voters, m) {
					silent = append(silent, m)
				}
			}
			if len(silent) >= q.Number {
				return fmt.Sprintf("%s, or %d of %v", lost, len(silent)-q.Number+1, silent)
			}
		}
	}
	return ""
}
