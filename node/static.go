package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The annotations of mirror pods, which show static pods in the API.
const (
	mirrorNote = "kubernetes.io/config.mirror"
	hashNote   = "kubernetes.io/config.hash"
	sourceNote = "kubernetes.io/config.source"
)

// staticsEvery is the interval between reads of the manifests.
const staticsEvery = 5 * time.Second

// staticPods makes mirror pods of manifests on this machine.
type staticPods struct{ *common }

// run keeps the pods of the manifest directory: each runs as its mirror pod in the API, which is made anew when
// the manifest changes and goes when the manifest does.
//
// Unlike Kubernetes, a static pod runs by its mirror: it needs the API server to start, not to go on.
func (sp *staticPods) run(ctx context.Context) {
	for sp.cfg.StaticDir != "" {
		if err := sp.mirror(ctx); err != nil && ctx.Err() == nil {
			sp.log.Warn("keep the static pods", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(staticsEvery):
		}
	}
}

func (sp *staticPods) mirror(ctx context.Context) error {
	want, err := sp.manifests()
	if err != nil {
		return err
	}
	now := int64(0)
	for _, p := range sp.pods() {
		hash, ours := p.Annotations[mirrorNote]
		if !ours {
			continue
		}
		i := slices.IndexFunc(want, func(w *corev1.Pod) bool { return w.Namespace == p.Namespace && w.Name == p.Name })
		if i >= 0 && want[i].Annotations[mirrorNote] == hash && p.DeletionTimestamp == nil {
			want = slices.Delete(want, i, i+1)
			continue
		}
		opts := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
		if p.DeletionTimestamp != nil {
			opts.GracePeriodSeconds = &now
		}
		if err := sp.cfg.Client.Delete(ctx, kinds.Pods, p.Namespace, p.Name, opts); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete mirror pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	for _, p := range want {
		if _, err := sp.cfg.Client.Create(ctx, kinds.Pods, p); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create mirror pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// manifests reads the static pods. A file that is no pod is logged and skipped.
func (sp *staticPods) manifests() (list []*corev1.Pod, err error) {
	entries, err := os.ReadDir(sp.cfg.StaticDir)
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || (ext != ".yaml" && ext != ".yml" && ext != ".json") {
			continue
		}
		path := filepath.Join(sp.cfg.StaticDir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		pod, err := sp.static(data)
		if err != nil {
			sp.log.Warn("skip a manifest", "object", path, "err", err)
			continue
		}
		list = append(list, pod)
	}
	return list, nil
}

func (sp *staticPods) static(data []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		return nil, err
	}
	if pod.Kind != "Pod" || pod.Name == "" {
		return nil, fmt.Errorf("not a pod with a name")
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	sum := sha256.Sum256(append(data, sp.cfg.Name...))
	hash := hex.EncodeToString(sum[:16])
	pod.Name += "-" + sp.cfg.Name
	pod.Spec.NodeName = sp.cfg.Name
	for k, v := range map[string]string{mirrorNote: hash, hashNote: hash, sourceNote: "file"} {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
	}
	if n := resource.Get(sp.cfg.Client.Read(), kinds.Nodes, "", sp.cfg.Name); n != nil {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID, Controller: new(true)}}
	}
	return pod, nil
}
