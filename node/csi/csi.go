// Package csi mounts volumes of CSI drivers on the node.
//
//	reads   CSIDriver, PersistentVolume, claim, VolumeAttachment, Secrets that they name; the own Node; drivers over their sockets
//	writes  CSINode, Node: labels, annotation, status.volumesInUse; claim: status, when a volume grew; files below the root directory
//	rule    a volume is staged once as long as a pod of the node uses it, and published for each such pod; for no other
//
// What is on disk is the truth, in the kubelet's layout, which drivers and backup programs read. A file vol_data.json is written
// before the first call of a driver for a volume, and removed when the driver has answered that it let go. So what has a file may be
// mounted, whoever crashed when: it is let go before it is forgotten, and an agent that starts anew knows it. Calls of drivers are
// idempotent by their contract: one that has no answer is made again.
//
//	plugins/kubernetes.io/csi/DRIVER/SHA/{vol_data.json,globalmount}         a staged file system
//	pods/UID/volumes/kubernetes.io~csi/NAME/{vol_data.json,mount}            one that is published
//	plugins/kubernetes.io/csi/volumeDevices/PV/data/vol_data.json            a block device
//	plugins/kubernetes.io/csi/volumeDevices/{staging/PV,publish/PV/UID}      staged, published
//	pods/UID/volumeDevices/kubernetes.io~csi/PV                              a link to it: the record that it is published
package csi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
)

// A Token is a service account token for a pod.
type Token struct {
	Text    string    `json:"token"`
	Expires time.Time `json:"expirationTimestamp"`
}

// Config says where volumes are mounted, and what they are made of.
type Config struct {
	Dir    string // the agent's root directory
	Client client.Client
	Node   string
	Events *client.Recorder // of claims that grow; nil: no events
	Log    *slog.Logger     // nil: the default
	// Token returns a token of the pod's service account for an audience; life is in seconds.
	Token func(ctx context.Context, pod *corev1.Pod, audience string, life int64) (Token, error)
	// Wake is called when a driver came, or a pod's volume may be had now; nil: nobody waits.
	Wake func()
	// Called hears of each call of a driver, with the method's name in gRPC; nil: nobody asks.
	Called func(driver, method string, took time.Duration, err error)
	// SELinux says that files have labels on this machine.
	SELinux bool
	// Labelled hears what became of the label of a volume of a driver, with its access mode in short; nil: nobody asks.
	Labelled func(what, driver, mode string)
	// Within bounds each call of a driver; 0: 2 min.
	Within time.Duration
}

// A Mounter mounts and unmounts. It is safe for concurrent use.
type Mounter struct {
	cfg     Config
	log     *slog.Logger
	Drivers *Drivers
	layout
	knowledge
}

// A volumeID is a volume of a driver.
type volumeID struct{ driver, handle string }

func (v volumeID) String() string { return v.driver + "^" + v.handle }

// unique is its name in the Node's status.
func (v volumeID) unique() corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.String())
}

// New returns a Mounter. It touches nothing.
func New(cfg Config) *Mounter {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	b := &books{client: cfg.Client, node: cfg.Node, log: cfg.Log}
	return &Mounter{cfg: cfg, log: cfg.Log, Drivers: &Drivers{books: b, within: cfg.Within, wake: cfg.Wake, of: map[string]*driver{},
		came: make(chan struct{}, 1), called: cfg.Called},
		layout: layout(cfg.Dir), knowledge: knowledge{locks: map[volumeID]*turn{},
			wanted: map[volumeID]map[types.UID]string{}, staged: map[volumeID]bool{},
			done: map[types.UID]map[string]settled{}, attach: map[volumeID]bool{}, usage: map[types.UID]map[string]Usage{},
			bad: map[types.UID]map[string]struct{}{}, sizes: map[volumeID]int64{}}}
}

// Open makes the node's CSINode, without which nothing knows of the node's drivers.
func (m *Mounter) Open(ctx context.Context) error { return m.Drivers.books.open(ctx) }

// A Waiting error says what has to come before a volume can be mounted: nothing failed.
type Waiting struct {
	text string
	full bool // the node has as many volumes of the driver as it can have
}

// Error says what is waited for.
func (w *Waiting) Error() string { return w.text }

// A FullError says that the node can have no more volumes of a driver: the pod can't run here.
type FullError struct {
	Volume string // of the pod
	why    error
}

// Error is the driver's own text.
func (e *FullError) Error() string { return e.why.Error() }

// Wait is the error that says what has to come first.
func Wait(text string) error { return &Waiting{text: text} }

// IsWaiting says that nothing failed yet.
func IsWaiting(err error) bool {
	var w *Waiting
	return errors.As(err, &w)
}
