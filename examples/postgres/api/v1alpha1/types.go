// Package v1alpha1 holds the kinds PostgresCluster and PostgresBackup.
//
// +kubebuilder:object:generate=true
// +groupName=database.example.com
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd paths=. output:crd:dir=../../config/crd

// GroupVersion is that of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "database.example.com", Version: "v1alpha1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PostgresCluster{}, &PostgresClusterList{}, &PostgresBackup{}, &PostgresBackupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// A PostgresCluster is a primary with its standbys, in one namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgc
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replication.replicaCount,statuspath=.status.readyReplicas
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.currentPrimary`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="the name has at most 40 characters"
type PostgresCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PostgresClusterSpec   `json:"spec"`
	Status            PostgresClusterStatus `json:"status,omitempty"`
}

// PostgresClusterSpec says what should be.
type PostgresClusterSpec struct {
	// Major version, or a major version with the oldest minor one that will do. The major version stays.
	// +kubebuilder:validation:Pattern=`^[0-9]{2}(\.[0-9]{1,3})?$`
	// +kubebuilder:validation:XValidation:rule="self.split('.')[0] == oldSelf.split('.')[0]",message="the major version stays"
	EngineVersion string `json:"engineVersion"`

	// Size of each instance's volume. It may grow.
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity(oldSelf)) >= 0",message="storage does not shrink"
	StorageSize resource.Quantity `json:"storageSize"`

	Replication Replication `json:"replication,omitempty"`

	// When base backups are taken, in cron's five fields, UTC. With it there is an archive: a pod that keeps them and all WAL. Empty: none.
	BackupSchedule string `json:"backupSchedule,omitempty"`

	// Base backups that are kept; WAL is kept from the oldest of them on.
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	BackupsKept int32 `json:"backupsKept,omitempty"`

	// Whether a commit waits for a standby. Off: never. Preferred: while a standby streams; then nothing acknowledged is lost unless
	// the primary is lost after its last standby. Required: always; without a standby there are no commits.
	// +kubebuilder:validation:Enum=off;preferred;required
	// +kubebuilder:default=preferred
	Synchronous Synchronous `json:"synchronous,omitempty"`

	// +kubebuilder:default="docker.io/library/kloop-postgres:15"
	Image string `json:"image,omitempty"`

	// Settings of postgresql.conf. Those that replication rests on are not taken.
	// +kubebuilder:validation:MaxProperties=100
	Parameters map[string]string `json:"parameters,omitempty"`

	// Where a new cluster gets its data from; nil: it begins empty.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="what a cluster began with stays"
	RestoreFrom *RestoreFrom `json:"restoreFrom,omitempty"`

	// What becomes of the volumes when the cluster is deleted.
	// +kubebuilder:validation:Enum=Retain;Delete
	// +kubebuilder:default=Retain
	DeletionPolicy string `json:"deletionPolicy,omitempty"`
}

// Replication says how many standbys there are.
type Replication struct {
	Enabled bool `json:"enabled,omitempty"`

	// Standbys beside the primary; none unless enabled.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	ReplicaCount int32 `json:"replicaCount,omitempty"`
}

// Synchronous says when commits wait for standbys.
type Synchronous string

// The values of Synchronous.
const (
	Off       Synchronous = "off"
	Preferred Synchronous = "preferred"
	Required  Synchronous = "required"
)

// RestoreFrom names a cluster of the same namespace and a time.
type RestoreFrom struct {
	Cluster string `json:"cluster"`
	// What was committed by then is there, and nothing else; nil: all that was archived.
	TargetTime *metav1.MicroTime `json:"targetTime,omitempty"`
}

// PostgresClusterStatus is written by the operator alone. What an instance says of itself is the annotation Report of its pod.
type PostgresClusterStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The instance that should be primary. It becomes so when it holds the Lease.
	TargetPrimary string `json:"targetPrimary,omitempty"`

	// The instance that last was seen as primary.
	CurrentPrimary string `json:"currentPrimary,omitempty"`

	// Counts elections. An instance that reports an epoch takes nothing from an older primary.
	Epoch int64 `json:"epoch,omitempty"`

	// Set while it is open who becomes primary: there is none then.
	Election *Election `json:"election,omitempty"`

	// Which standbys a commit waits for. It is in force at the primary after it stood here.
	Quorum *Quorum `json:"quorum,omitempty"`

	// The quorum before, until the primary says that the new one is in force: an election asks for both.
	QuorumBefore *Quorum `json:"quorumBefore,omitempty"`

	// Identity of the data, from the first start on. With it, no instance begins empty data.
	SystemID string `json:"systemID,omitempty"`

	Timeline      int64              `json:"timeline,omitempty"`
	Version       string             `json:"version,omitempty"`
	ReadyReplicas int32              `json:"readyReplicas,omitempty"` // standbys that stream
	LastPromotion *metav1.Time       `json:"lastPromotion,omitempty"`
	LastBackup    *metav1.Time       `json:"lastBackup,omitempty"` // when the newest that is complete was
	LastScheduled *metav1.Time       `json:"lastScheduled,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

// An Election is begun when the primary is lost.
type Election struct {
	Reason string           `json:"reason"`
	Since  metav1.MicroTime `json:"since"` // for people
	// The instances whose commits must not be lost.
	Former []string `json:"former,omitempty"`
}

// A Quorum is the value of synchronous_standby_names: any Number of Members, without the primary itself.
type Quorum struct {
	Number  int      `json:"number"`
	Members []string `json:"members"`
}

// PostgresClusterList is a list of them.
//
// +kubebuilder:object:root=true
type PostgresClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgresCluster `json:"items"`
}

// A PostgresBackup is a base backup, made once. The operator makes one when it is time; anybody else may too.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgb
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.status.completed`
type PostgresBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PostgresBackupSpec   `json:"spec"`
	Status            PostgresBackupStatus `json:"status,omitempty"`
}

// PostgresBackupSpec names the cluster.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a backup is made once"
type PostgresBackupSpec struct {
	Cluster string `json:"cluster"`
}

// The phases of a backup that has ended.
const (
	BackupCompleted = "Completed"
	BackupFailed    = "Failed"
)

// PostgresBackupStatus is written by the cluster's archive pod.
type PostgresBackupStatus struct {
	Phase     string       `json:"phase,omitempty"` // Completed or Failed; empty before
	Completed *metav1.Time `json:"completed,omitempty"`
	Bytes     int64        `json:"bytes,omitempty"`
	Message   string       `json:"message,omitempty"`
}

// PostgresBackupList is a list of them.
//
// +kubebuilder:object:root=true
type PostgresBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgresBackup `json:"items"`
}
