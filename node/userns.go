package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/internal/userns"
)

// Users of pods with a user namespace of their own: so many ids, from where on, and how many such pods there can be. The first range
// belongs to the machine.
const (
	idsPerPod = 65536
	idRanges  = 1<<32/idsPerPod - 2 // the last id of all is none
)

// userRanges gives every pod with hostUsers: false a range of ids of the machine that no other pod has (KEP-127). It is kept in a file
// beside the pod's others, as upstream keeps it, so that an agent that starts anew gives nobody the ids of a pod that runs.
//
// Unlike Kubernetes, the ranges lie in all ids but the machine's first 65536; /etc/subuid is not read.
type userRanges struct {
	*common

	mu sync.Mutex
	of map[types.UID]uint32 // pod → first id; nil: the files have not been read yet
}

// mappings is the content of such a file.
type mappings struct {
	UID []mapping `json:"uidMappings"`
	GID []mapping `json:"gidMappings"`
}

type mapping struct {
	Host      uint32 `json:"hostId"`
	Container uint32 `json:"containerId"`
	Length    uint32 `json:"length"`
}

// ownUsers says that the pod's users are not those of the machine.
func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

func (u *userRanges) file(uid types.UID) string { return filepath.Join(u.podDir(uid), "userns") }

// options returns the pod's user namespace for the runtime; nil: they are the machine's. A pod gets its range with its first question.
func (u *userRanges) options(pod *corev1.Pod) (*cri.UserNamespace, error) {
	if !ownUsers(pod) {
		return nil, nil
	}
	if userns.Inside() {
		return nil, errors.New("this node runs without root: it has no ids to give to users of the pod's own (hostUsers: false)")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.load(); err != nil {
		return nil, err
	}
	first, ok := u.of[pod.UID]
	if !ok {
		var err error
		if first, err = u.free(); err != nil {
			return nil, err
		}
		if err := u.save(pod.UID, first); err != nil {
			return nil, err
		}
		u.of[pod.UID] = first
	}
	ids := []*cri.IDMapping{{HostId: first, Length: idsPerPod}}
	return &cri.UserNamespace{Mode: cri.NamespaceMode_POD, Uids: ids, Gids: ids}, nil
}

// free finds a range that nobody has. u is locked.
func (u *userRanges) free() (uint32, error) {
	taken := map[uint32]bool{}
	for _, first := range u.of {
		taken[first] = true
	}
	for i := uint32(1); i <= idRanges; i++ {
		if !taken[i*idsPerPod] {
			return i * idsPerPod, nil
		}
	}
	return 0, errors.New("no range of user ids is left on this node")
}

// load reads the files of all pods, once. One that can't be read keeps new pods from getting ranges, lest two share one. u is locked.
func (u *userRanges) load() error {
	if u.of != nil {
		return nil
	}
	files, err := filepath.Glob(u.file("*"))
	if err != nil {
		return err
	}
	of := map[types.UID]uint32{}
	for _, path := range files {
		var m mappings
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // its pod went meanwhile
		}
		if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil {
			return fmt.Errorf("read which user ids a pod has: %s: %w", path, err)
		}
		if len(m.UID) != 1 || m.UID[0].Host%idsPerPod != 0 || m.UID[0].Host == 0 {
			return fmt.Errorf("%s does not say which user ids the pod has: end the pod, or restore the file", path)
		}
		of[types.UID(filepath.Base(filepath.Dir(path)))] = m.UID[0].Host
	}
	u.of = of
	return nil
}

// save writes a pod's range so that it outlives a loss of power: its files belong to those ids.
func (u *userRanges) save(uid types.UID, first uint32) error {
	list := []mapping{{Host: first, Length: idsPerPod}}
	text, err := json.Marshal(mappings{list, list})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(u.podDir(uid), 0o750); err != nil {
		return fmt.Errorf("keep which user ids the pod has: %w", err)
	}
	if err := atomicfile.Write(u.file(uid), text, 0o600); err != nil {
		return fmt.Errorf("keep which user ids the pod has: %w", err)
	}
	return nil
}

// forget gives the pod's range back.
func (u *userRanges) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, uid)
}

// supported says why a pod can't have users of its own under a handler of the runtime; nil: it can.
func (u *userRanges) supported(ctx context.Context, pod *corev1.Pod, handler string) error {
	if !ownUsers(pod) {
		return nil
	}
	can, err := u.features(ctx, handler)
	if err != nil {
		return fmt.Errorf("ask the runtime for user namespaces: %w", err)
	}
	if !can.GetUserNamespaces() {
		return fmt.Errorf("the runtime's handler %q does not support user namespaces (hostUsers: false): "+
			"that takes containerd 2.0, runc 1.2 and a kernel with idmapped mounts", handler)
	}
	return nil
}

// features returns the abilities of a handler of the runtime; nil: it has none that need asking.
func (c *common) features(ctx context.Context, handler string) (*cri.RuntimeHandlerFeatures, error) {
	res, err := c.cfg.Runtime.Containers.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(res.GetRuntimeHandlers(), func(h *cri.RuntimeHandler) bool { return h.Name == handler })
	if i < 0 {
		return nil, nil
	}
	return res.RuntimeHandlers[i].GetFeatures(), nil
}

// mapMounts has the pod's users own what they own in mounts of the host too.
func mapMounts(list []*cri.Mount, users *cri.UserNamespace) {
	for _, m := range list {
		if users != nil && m.HostPath != "" {
			m.UidMappings, m.GidMappings = users.Uids, users.Gids
		}
	}
}

// handlers returns the Node's entries for the runtime's handlers, by their names.
func handlers(res *cri.StatusResponse) (list []corev1.NodeRuntimeHandler) {
	by := map[string]*cri.RuntimeHandlerFeatures{}
	for _, h := range res.GetRuntimeHandlers() {
		by[h.Name] = h.GetFeatures()
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, corev1.NodeRuntimeHandler{Name: name, Features: &corev1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(by[name].GetRecursiveReadOnlyMounts()), UserNamespaces: new(by[name].GetUserNamespaces())}})
	}
	return list
}
