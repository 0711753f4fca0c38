package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Labels and annotations.
const (
	ClusterLabel  = "database.example.com/cluster"  // on everything that belongs to a cluster
	InstanceLabel = "database.example.com/instance" // on instances' pods and claims: the instance's name
	RoleLabel     = "database.example.com/role"     // on instances' pods: Primary or Replica, by the operator; the Services select it
	HashAnno      = "database.example.com/template" // on pods: what they were made from
	ReportAnno    = "database.example.com/report"   // on instances' pods: a Report, by the instance
	ReleasedAnno  = "database.example.com/released" // on the Lease: where the WAL of a holder that gave it up ends
	EpochAnno     = "database.example.com/epoch"    // on the Lease: the cluster's epoch when its holder took it
	Finalizer     = "database.example.com/stop"     // on clusters: instances are stopped in order before it goes

	Primary = "primary"
	Replica = "replica"
	Archive = "archive"
)

// A Report describes an instance, in its own words. It changes when something happens, not with every commit.
type Report struct {
	Role       string   `json:"role,omitempty"`       // Primary or Replica while PostgreSQL runs as such; else empty
	Epoch      int64    `json:"epoch,omitempty"`      // newest election for which WAL is no longer received, and writes are not taken
	Timeline   int64    `json:"timeline,omitempty"`   // with Epoch, and of a primary
	LSN        uint64   `json:"lsn,omitempty"`        // with Epoch: where the WAL ends
	SystemID   string   `json:"systemID,omitempty"`   // of the data; empty without
	Version    string   `json:"version,omitempty"`    // of PostgreSQL in the image
	Streaming  []string `json:"streaming,omitempty"`  // of a primary: standbys that have caught up, sorted
	Quorum     *Quorum  `json:"quorum,omitempty"`     // of a primary: what is in force
	Generation int64    `json:"generation,omitempty"` // of the cluster: its settings were read before the rest was observed
	Restart    bool     `json:"restart,omitempty"`    // settings wait for a restart
	Paused     bool     `json:"paused,omitempty"`     // of a standby: it replays nothing, since its primary has more connections than it
	ArchiveBad string   `json:"archiveBad,omitempty"` // WAL that could not be archived
	Problem    string   `json:"problem,omitempty"`    // why it does not run
}

// ReadReport reads the annotation of a pod; there is none if it was not written, or not by an instance.
func ReadReport(annotations map[string]string) *Report {
	var r Report
	if text := annotations[ReportAnno]; text == "" || json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return &r
}

// Instances returns how many instances there should be, the primary included.
func (c *PostgresCluster) Instances() int {
	if !c.Spec.Replication.Enabled {
		return 1
	}
	return 1 + int(c.Spec.Replication.ReplicaCount)
}

// InstanceName is that of the nth instance, from 1.
func (c *PostgresCluster) InstanceName(n int) string { return fmt.Sprintf("%s-%d", c.Name, n) }

// Ordinal is the number in an instance's name; 0 if it is not one of the cluster's.
func (c *PostgresCluster) Ordinal(instance string) int {
	text, ok := strings.CutPrefix(instance, c.Name+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 || c.InstanceName(n) != instance {
		return 0
	}
	return n
}

// Holder is an instance's signature in the Lease: a pod of the same name that is made anew is another.
func Holder(pod, uid string) string { return pod + "_" + uid }

// HolderName is the instance in a Lease's holder.
func HolderName(holder string) string {
	name, _, _ := strings.Cut(holder, "_")
	return name
}

// Satisfies says whether an engine of one version will do where another is wanted: same major version, and no older.
func Satisfies(have, want string) bool {
	haveMajor, haveMinor, _ := strings.Cut(have, ".")
	wantMajor, wantMinor, _ := strings.Cut(want, ".")
	minor := func(s string) int { n, _ := strconv.Atoi(s); return n } // no minor version: the first
	return haveMajor == wantMajor && minor(haveMinor) >= minor(wantMinor)
}
