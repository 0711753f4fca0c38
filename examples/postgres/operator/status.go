package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// decideConditions says in status how things are, for people and for kloop why. What is false says what it waits for.
func decideConditions(w World, status *v1alpha1.PostgresClusterStatus) {
	c := w.Cluster
	status.ObservedGeneration = c.Generation
	set := func(kind string, ok bool, reason, message string) {
		cond := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: c.Generation}
		if ok {
			cond.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, cond)
	}
	up, reason, message := primaryState(w, status)
	set("PrimaryAvailable", up, reason, message)

	standbys, streaming := c.Instances()-1, 0
	var absent []string
	for _, name := range w.names() {
		switch {
		case name == status.TargetPrimary:
		case up && slices.Contains(w.report(status.TargetPrimary).Streaming, name):
			streaming++
		default:
			absent = append(absent, name+w.why(name))
		}
	}
	status.ReadyReplicas = int32(streaming)
	whole := len(absent) == 0
	if whole {
		set("Replicating", true, "AllStream", fmt.Sprintf("%d standbys have what the primary has", standbys))
	} else {
		set("Replicating", false, "StandbysMissing", "not streaming: "+strings.Join(absent, "; "))
	}
	settingsState(w, set)
	backupState(w, status, set)
	archived := archiveState(w, status, up, set)
	switch {
	case !up:
		set("Ready", false, reason, message)
	case c.Spec.Synchronous == v1alpha1.Required && standbys > 0 && streaming == 0:
		set("Ready", false, "WritesBlocked", "synchronous is required, and no standby streams: commits wait")
	case !whole:
		set("Ready", false, "StandbysMissing", "not streaming: "+strings.Join(absent, "; "))
	case !archived:
		set("Ready", false, "NotArchiving", meta.FindStatusCondition(status.Conditions, "Archiving").Message)
	default:
		set("Ready", true, "Ready", "")
	}
}

// settingsState says whether all instances run with the present settings and template.
func settingsState(w World, set func(string, bool, string, string)) {
	var old, unasked []string
	for _, name := range w.names() {
		switch {
		case w.outdated(name):
			old = append(old, name)
		case w.unasked(name):
			unasked = append(unasked, name)
		}
	}
	switch {
	case len(old) > 0:
		set("UpToDate", false, "RollingUpdate", "to be made anew, one after the other: "+strings.Join(old, ", "))
	case len(unasked) > 0:
		set("UpToDate", false, "Settings", "to read the present settings: "+strings.Join(unasked, ", "))
	default:
		set("UpToDate", true, "UpToDate", "")
	}
}

// backupState says when the newest backup was, and how the last attempt ended. One that was removed since is remembered.
func backupState(w World, status *v1alpha1.PostgresClusterStatus, set func(string, bool, string, string)) {
	if w.LastBackup != nil && (status.LastBackup == nil || status.LastBackup.Before(w.LastBackup)) {
		status.LastBackup = w.LastBackup
	}
	const kind = "LastBackupSucceeded"
	_, err := cron.ParseStandard(w.Cluster.Spec.BackupSchedule)
	switch last := w.LastEnded; {
	case w.Cluster.Spec.BackupSchedule == "":
		meta.RemoveStatusCondition(&status.Conditions, kind)
	case err != nil:
		set(kind, false, "BadSchedule", "backupSchedule is no cron line: "+err.Error())
	case last != nil && last.Status.Phase == v1alpha1.BackupFailed:
		set(kind, false, "BackupFailed", fmt.Sprintf("backup %s: %s", last.Name, last.Status.Message))
	case status.LastBackup != nil:
		set(kind, true, "Completed", "")
	default: // the first is not due yet
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
}

func archiveState(w World, status *v1alpha1.PostgresClusterStatus, up bool, set func(string, bool, string, string)) bool {
	if w.Cluster.Spec.BackupSchedule == "" {
		meta.RemoveStatusCondition(&status.Conditions, "Archiving")
		return true
	}
	switch bad := w.report(status.TargetPrimary).ArchiveBad; {
	case !ready(w.Pods[archiveName(w.Cluster)]): // so it takes no WAL, which is no news
		set("Archiving", false, "NoArchive", "pod "+archiveName(w.Cluster)+" is not ready")
	case bad != "":
		set("Archiving", false, "WALNotTaken", "the archive has not taken "+bad)
	case up:
		set("Archiving", true, "Archiving", "")
		return true
	default:
		return meta.IsStatusConditionTrue(status.Conditions, "Archiving")
	}
	return false
}

// primaryState says whether there is a primary, and else what is waited for.
func primaryState(w World, status *v1alpha1.PostgresClusterStatus) (up bool, reason, message string) {
	if e := status.Election; e != nil {
		var voters []string
		for name := range w.Pods {
			if w.report(name).Epoch == status.Epoch {
				voters = append(voters, name)
			}
		}
		if who := missing(*status, voters); who != "" {
			return false, "WaitingForQuorum", fmt.Sprintf(
				"%s; before another is primary, this must be heard of, or commits could be lost: %s", e.Reason, who)
		}
		return false, "Election", e.Reason
	}
	target := status.TargetPrimary
	if w.leads() && target == w.Cluster.Status.TargetPrimary {
		return true, "Serving", target + " takes writes"
	}
	return false, "Starting", target + " is to be primary" + w.why(target)
}

// why says what keeps an instance from running; empty: nothing known.
func (w World) why(name string) string {
	switch p, r := w.Pods[name], w.report(name); {
	case p == nil:
		return ", its pod is not there"
	case p.DeletionTimestamp != nil:
		return ", its pod is being deleted"
	case p.Status.Phase == corev1.PodPending:
		return ", its pod is pending"
	case r.Problem != "":
		return ": " + r.Problem
	}
	return ""
}

func ready(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
