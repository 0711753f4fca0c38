// Package volume makes the volumes of pods on the node: directories of the pod's own, files from the API that
// follow it atomically, and paths of the host.
//
//	DIR/pods/UID/volumes/kubernetes.io~<plugin>/<name>
//
// What is on disk is the truth: a Mounter that starts anew finds the volumes of an earlier one.
package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/selinux"
)

// Config says where volumes live and what they are filled from.
type Config struct {
	Dir    string        // of the agent; pods' files are below pods/
	Client client.Client // reads ConfigMaps, Secrets, claims and the Node; asks for tokens
	Node   string        // name of the Node: its allocatable resources stand in for limits that are not set
	Memory func() int64  // bytes of it that pods can have, all together; nil: nobody knows
	Log    *slog.Logger  // nil: the default
	Events *client.Recorder
	Wake   func() // called when a volume that was waited for may be had now; nil: nobody waits
	// Bundles lists a signer's trust bundles; complete: these are all.
	Bundles func(signer string) (list []*certificatesv1.ClusterTrustBundle, complete bool)
	// Took hears of each volume's mounting and unmounting, with its plugin; nil: nobody asks.
	Took func(what, plugin string, took time.Duration, err error)
	// SELinux is the machine's policy; nil: files have no labels. Labelled hears what became of the label of a driver's volume.
	SELinux  *selinux.Policy
	Labelled func(what, driver, mode string)
	// Called hears of each call of a CSI driver, with the method's name in gRPC; nil: nobody asks.
	Called func(driver, method string, took time.Duration, err error)
}

// A Mounter makes, refreshes and removes volumes. It is safe for concurrent use on different pods; calls for one
// pod come one after the other.
type Mounter struct {
	cfg Config
	log *slog.Logger
	csi *csi.Mounter

	Labels Labels // of SELinux

	local localMounts
	nfs   nfsMounts

	mu   sync.Mutex
	pods map[types.UID]*state
}

// state caches facts about a pod's volumes; all of them can be had again.
type state struct {
	written map[string]string       // volume → digest of the content that is on disk
	tokens  map[string]*token       // by what was asked for
	reached map[string]bool         // volumes that can be had from this node
	paths   map[string]string       // directories of claims on this host; "": none
	walked  map[string]walked       // what lay in directories
	look    time.Time               // when drivers' volumes are looked at again
	settled bool                    // nobody waits for a local volume to grow, as far as known
	certs   map[string]*certificate // by volume and source
	plugins map[string]string       // what mounts volumes of claims
	given   map[string]bool         // volumes that have been given to the pod's group
}

// New returns a Mounter. It touches nothing.
func New(cfg Config) *Mounter {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	m := &Mounter{cfg: cfg, log: cfg.Log, pods: map[types.UID]*state{}, local: localMounts{dir: cfg.Dir, busy: map[string]chan struct{}{}}}
	m.Labels.policy = cfg.SELinux
	m.csi = csi.New(csi.Config{Dir: cfg.Dir, Client: cfg.Client, Node: cfg.Node, Events: cfg.Events, Log: cfg.Log, Wake: cfg.Wake,
		Token: m.driverToken, Called: cfg.Called, SELinux: cfg.SELinux.Enabled(), Labelled: cfg.Labelled})
	return m
}

// CSI mounts the volumes of drivers.
func (m *Mounter) CSI() *csi.Mounter { return m.csi }

func (m *Mounter) state(uid types.UID) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pods[uid]
	if s == nil {
		s = &state{written: map[string]string{}, tokens: map[string]*token{}, reached: map[string]bool{},
			paths: map[string]string{}, walked: map[string]walked{}, certs: map[string]*certificate{}, given: map[string]bool{},
			plugins: map[string]string{}}
		m.pods[uid] = s
	}
	return s
}

// Prepare makes all volumes that containers of the pod use, or finds them made, and returns the host path of each by its name. Content
// is brought up to date. An error says which volume failed, as the kubelet's events do.
func (m *Mounter) Prepare(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if err := checkUID(pod.UID); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(m.podDir(pod.UID), 0o750); err != nil {
		return nil, fmt.Errorf("make the pod's directory: %w", err)
	}
	paths := map[string]string{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !used(pod, v.Name) {
			continue // as by the kubelet: nobody misses it
		}
		began := time.Now()
		path, err := m.prepare(ctx, pod, v)
		m.took("volume_mount", m.pluginName(pod, v), began, err)
		if err != nil {
			return nil, setUpFailed(v.Name, err)
		}
		paths[v.Name] = path
	}
	return paths, nil
}

// used says that a container of the pod has the volume.
func used(pod *corev1.Pod, volume string) bool {
	has := func(c *corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) ||
			slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume })
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if has(&list[i]) {
				return true
			}
		}
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e corev1.EphemeralContainer) bool {
		c := corev1.Container(e.EphemeralContainerCommon)
		return has(&c)
	})
}

func (m *Mounter) prepare(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (path string, err error) {
	switch {
	case v.Image != nil:
		return "", nil // it has no place on the host: the runtime mounts it
	case v.HostPath != nil:
		return v.HostPath.Path, checkHostPath(v.HostPath)
	case v.PersistentVolumeClaim != nil:
		return m.claim(ctx, pod, v.Name, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return m.claim(ctx, pod, v.Name, pod.Name+"-"+v.Name)
	case v.CSI != nil:
		return m.driven(ctx, inline(pod, v))
	case v.NFS != nil:
		return m.nfs.mount(ctx, filepath.Join(m.volumesDir(pod.UID), nfsPlugin, v.Name), v.NFS, false, nil)
	}
	name := plugin(v)
	if name == "" {
		return "", unsupported(v)
	}
	path = filepath.Join(m.volumesDir(pod.UID), "kubernetes.io~"+name, v.Name)
	if v.EmptyDir != nil {
		return path, m.emptyDir(path, v.EmptyDir, pod)
	}
	if err := m.contentDir(path, v, pod); err != nil {
		return "", err
	}
	_, err = m.write(ctx, pod, v, path)
	return path, err
}

// plugin is the name of the volume's sort in paths; "" for those that have no directory of their own.
func plugin(v *corev1.Volume) string {
	switch {
	case v.EmptyDir != nil:
		return "empty-dir"
	case v.ConfigMap != nil:
		return "configmap"
	case v.Secret != nil:
		return "secret"
	case v.DownwardAPI != nil:
		return "downward-api"
	case v.Projected != nil:
		return "projected"
	}
	return ""
}

// follows says that the volume's content follows the API.
func follows(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// ReadOnly says that containers may only read the volume, whatever their mounts say.
func ReadOnly(v *corev1.Volume) bool {
	return follows(v) || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
}

// unsupported names what the volume would need.
func unsupported(v *corev1.Volume) error {
	s := &v.VolumeSource
	for _, k := range []struct {
		name string
		is   bool
	}{{"iscsi", s.ISCSI != nil}, {"fc", s.FC != nil}, {"flexVolume", s.FlexVolume != nil}, {"rbd", s.RBD != nil},
		{"cephfs", s.CephFS != nil}, {"portworxVolume", s.PortworxVolume != nil}} {
		if k.is {
			return fmt.Errorf("volumes of type %s are not supported yet", k.name)
		}
	}
	return errors.New("volumes of this type are not supported")
}

// Refresh brings the content of the pod's volumes up to date, where it follows the API. next says when to look
// again although nothing may change: a token grows old; 0 means only on a change. Volumes that were not prepared
// are left alone.
func (m *Mounter) Refresh(ctx context.Context, pod *corev1.Pod) (next time.Duration, err error) {
	next, err = m.refreshDriven(ctx, pod)
	errs := []error{err}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !follows(v) {
			continue
		}
		path := filepath.Join(m.volumesDir(pod.UID), "kubernetes.io~"+plugin(v), v.Name)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		again, err := m.write(ctx, pod, v, path)
		if err != nil {
			errs = append(errs, fmt.Errorf("refresh volume %q: %w", v.Name, err))
		}
		if again > 0 && (next == 0 || again < next) {
			next = again
		}
	}
	return next, errors.Join(errs...)
}

// Remove unmounts and deletes the volumes of a pod, whose containers are gone. Nothing to remove is no error. What can't be unmounted
// stays, and with it all that may lie below.
func (m *Mounter) Remove(ctx context.Context, uid types.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.pods, uid)
	m.mu.Unlock()
	m.Labels.forget(uid)
	steps := []func() error{
		func() error { return removeDir(m.pinsDir(uid)) }, // first: they hold volumes
		func() error { return m.csi.Unmount(ctx, uid) },
		func() error { return removeDir(m.volumesDir(uid)) },
		m.local.letGo,
		func() error { return removeDir(filepath.Join(m.podDir(uid), "volumeDevices")) },
	}
	began := time.Now()
	for _, step := range steps {
		if err := step(); err != nil {
			m.took("volume_unmount", "", began, err)
			return fmt.Errorf("remove the volumes of pod %s: %w", uid, err)
		}
	}
	m.took("volume_unmount", "", began, nil)
	return nil
}

func (m *Mounter) took(what, plugin string, began time.Time, err error) {
	if m.cfg.Took != nil {
		m.cfg.Took(what, plugin, time.Since(began), err)
	}
}

// pluginName is the kubelet's name for what makes the volume.
func (m *Mounter) pluginName(pod *corev1.Pod, v *corev1.Volume) string {
	switch name := plugin(v); {
	case name != "":
		return "kubernetes.io/" + name
	case v.CSI != nil:
		return "kubernetes.io/csi:" + v.CSI.Driver
	case v.HostPath != nil:
		return "kubernetes.io/host-path"
	case v.NFS != nil:
		return "kubernetes.io/nfs"
	case v.Image != nil:
		return "kubernetes.io/image"
	}
	s := m.state(pod.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(s.plugins[v.Name], "kubernetes.io/persistent-claim")
}

func (m *Mounter) podDir(uid types.UID) string {
	return filepath.Join(m.cfg.Dir, "pods", string(uid))
}

func (m *Mounter) volumesDir(uid types.UID) string {
	return filepath.Join(m.podDir(uid), "volumes")
}

func (m *Mounter) pinsDir(uid types.UID) string {
	return filepath.Join(m.podDir(uid), "volume-subpaths")
}

func removeDir(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := unmountBelow(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// checkUID refuses what can't be one folder's name: static pods bring their own.
func checkUID(uid types.UID) error {
	s := string(uid)
	if s == "" || strings.HasPrefix(s, ".") || strings.ContainsAny(s, "/\x00") {
		return fmt.Errorf("pod UID %q can't name a directory", s)
	}
	return nil
}

func fsGroup(pod *corev1.Pod) *int64 {
	if sc := pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}
