// Package localvolume is the protocol of local storage: what the loop local-storage and the agents of nodes write on a Node, and what
// marks the PersistentVolumes that are made of it.
//
//	Node annotation kloop.dev/local-storage        the agent's: the directory that it keeps volumes in
//	Node annotation kloop.dev/local-storage-free   the agent's: bytes that are free there, roughly
//	Node annotation volume.kloop.dev/PV-NAME       an Order of the loop's, to which the agent adds its answer
//	Node annotation snapshot.kloop.dev/NAME        the same for a snapshot of a volume, NAME being that of its VolumeSnapshotContent
//	PV annotation kloop.dev/local-storage-node     the loop's: the Node on whose disk the volume lies; this makes it ours
//	PV label kloop.dev/local-storage-node          the same, by which the volumes of a node are found
//	PV annotation kloop.dev/local-storage-form     the loop's: directory, ext4, xfs or block
//
// Orders stand on the Node because its agent may read and write it, whatever else it may not (the node authorizer). An order is there
// only while something is to be done: of what is done the PersistentVolume is the record.
package localvolume

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The annotations.
const (
	Path        = "kloop.dev/local-storage"
	Free        = "kloop.dev/local-storage-free"
	Node        = "kloop.dev/local-storage-node"
	Form        = "kloop.dev/local-storage-form"
	OrderPrefix = "volume.kloop.dev/"

	SnapshotPrefix = "snapshot.kloop.dev/"
)

// Provisioner is the name that the storage classes of local storage give. It is that of rancher's local-path-provisioner, so that
// manifests made for k3s and kind fit.
const Provisioner = "rancher.io/local-path"

// Finalizer keeps a PersistentVolume until what it stands for is gone. It is that of upstream's external provisioners (KEP-2644).
const Finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// SimulatedPath stands in volumes of simulated nodes. Nothing lies there.
const SimulatedPath = "/var/lib/kloop/storage"

// The forms of a volume.
const (
	Directory = "directory" // a directory: as much room as the disk has
	Ext4      = "ext4"      // an image of the claim's size with a file system
	XFS       = "xfs"
	Block     = "block" // such an image as a block device
)

// Image says that volumes of the form are images: their size is a limit.
func Image(form string) bool { return form == Ext4 || form == XFS || form == Block }

// What an order wants done. Each may be done again, and is then done already.
const (
	Make   = "make"
	Grow   = "grow"
	Remove = "remove"
	Copy   = "copy" // a volume into a snapshot; without a volume: find the snapshot
)

// An Order is about one volume on one node.
type Order struct {
	Do   string `json:"do"`
	Dir  string `json:"dir"`            // name of the volume's directory in the node's
	Form string `json:"form,omitempty"` // of a volume to make or to grow
	Size int64  `json:"size,omitempty"` // bytes, of a volume to make or to grow
	// From is the file of the snapshot that a volume is made of, or the directory of the volume that a snapshot is made of; "": none.
	From string `json:"from,omitempty"`

	Done   bool   `json:"done,omitempty"`   // the agent's answer
	Failed string `json:"failed,omitempty"` // or why it could not: it tries again
	At     int64  `json:"at,omitempty"`     // of a snapshot: when it was made, in nanoseconds since 1970
	Bytes  int64  `json:"bytes,omitempty"`  // of a snapshot: the size of the volume then
}

// Same says that both want the same, whatever the answer.
func (o Order) Same(p Order) bool {
	o.Done, o.Failed, o.At, o.Bytes, p.Done, p.Failed, p.At, p.Bytes = false, "", 0, 0, false, "", 0, 0
	return o == p
}

// String is the annotation's value.
func (o Order) String() string {
	text, _ := json.Marshal(o) // strings and numbers: it can't fail
	return string(text)
}

// Orders are those on a Node, by the name of the volume. What can't be read is left out, and for its writer to replace.
func Orders(n *corev1.Node) map[string]Order { return orders(n, OrderPrefix) }

// SnapshotOrders are those for snapshots, by the name of the snapshot.
func SnapshotOrders(n *corev1.Node) map[string]Order { return orders(n, SnapshotPrefix) }

func orders(n *corev1.Node, prefix string) map[string]Order {
	list := map[string]Order{}
	for key, text := range n.Annotations {
		name, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		var o Order
		if json.Unmarshal([]byte(text), &o) != nil {
			o = Order{}
		}
		list[name] = o
	}
	return list
}

// FreeOn returns the bytes that are free for volumes on the node; ok is false if it does not say.
func FreeOn(n *corev1.Node) (bytes int64, ok bool) {
	text, there := n.Annotations[Free]
	if !there {
		return 0, false
	}
	bytes, err := strconv.ParseInt(text, 10, 64)
	return bytes, err == nil
}

// Label is the value of the label by which the volumes of a node are found: its name, or a short form of a long one.
func Label(node string) string {
	if len(node) <= validation.LabelValueMaxLength {
		return node
	}
	return fmt.Sprintf("%s-%x", strings.TrimRight(node[:40], ".-"), sha256.Sum256([]byte(node)))[:validation.LabelValueMaxLength]
}

// maxName is the longest file name that file systems take, with room for the endings that agents add.
const maxName = 230

// DirOf names the directory of a volume so that people find it: by claim.
func DirOf(volume, ns, claim string) string {
	name := volume + "_" + ns + "_" + claim
	return name[:min(len(name), maxName)]
}

// Belongs says that a name can be that of the volume's directory, and of nothing else in the node's or outside.
func Belongs(dir, volume string) bool {
	return volume != "" && strings.HasPrefix(dir, volume+"_") && filepath.Base(dir) == dir && !strings.HasPrefix(dir, ".") &&
		len(dir) <= maxName && !strings.ContainsRune(dir, 0)
}

// A Snapshot is a copy of a volume that is an image, on a node's disk.
type Snapshot struct{ Node, Dir, Form string }

// File is the name of its file in the node's directory of snapshots.
func (s Snapshot) File() string { return s.Dir + "." + s.Form }

// Name is the one by which orders know it: the snapshot's own, without the claim's.
func (s Snapshot) Name() string {
	name, _, _ := strings.Cut(s.Dir, "_")
	return name
}

// Handle is the snapshot's name in a VolumeSnapshotContent.
func (s Snapshot) Handle() string { return s.Node + "/" + s.File() }

// ParseHandle reads a handle. ok is false for what can't be one.
func ParseHandle(text string) (s Snapshot, ok bool) {
	node, file, ok := strings.Cut(text, "/")
	form := strings.TrimPrefix(filepath.Ext(file), ".")
	s = Snapshot{Node: node, Dir: strings.TrimSuffix(file, "."+form), Form: form}
	return s, ok && node != "" && Image(form) && Belongs(s.Dir, s.Name())
}
