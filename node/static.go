package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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
type staticPods struct {
	*common
	last map[string]*corev1.Pod // by manifest: what it said when it could be read last
}

// run keeps the pods of the manifest directory: each runs as its mirror pod in the API, which is made anew when
// the manifest changes and goes when the manifest does.
//
// Unlike Kubernetes, a static pod runs by its mirror: it needs the API server to start, not to go on.
func (sp *staticPods) run(ctx context.Context) {
	for said := ""; sp.cfg.StaticDir != ""; {
		text := ""
		if err := sp.mirror(ctx); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != said {
				sp.log.Warn("keep the static pods", "err", err)
			}
		}
		said = text
		select {
		case <-ctx.Done():
			return
		case <-time.After(staticsEvery):
		}
	}
}

// mirror makes the mirror pods that there should be, and deletes those that should not. One that can't be made, and a manifest that can't
// be read, hold up no other.
func (sp *staticPods) mirror(ctx context.Context) error {
	want, err := sp.manifests()
	if want == nil {
		return err
	}
	errs := []error{err}
	for _, p := range sp.pods() {
		hash, ours := p.Annotations[mirrorNote]
		if !ours || p.DeletionTimestamp != nil { // it ends within its grace, as any other
			continue
		}
		i := slices.IndexFunc(want, func(w *corev1.Pod) bool { return w.Namespace == p.Namespace && w.Name == p.Name })
		if i >= 0 && want[i].Annotations[mirrorNote] == hash {
			want = slices.Delete(want, i, i+1)
			continue
		}
		this := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
		err := sp.cfg.Client.Delete(ctx, kinds.Pods, p.Namespace, p.Name, this)
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete mirror pod %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	for _, p := range want {
		if _, err := sp.cfg.Client.Create(ctx, kinds.Pods, p); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create mirror pod %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// manifests reads the static pods. Of a file that is no pod, or can't be read, the one counts that was there before: it may be half
// written. A nil list: nobody knows which there are.
func (sp *staticPods) manifests() (list []*corev1.Pod, err error) {
	entries, err := os.ReadDir(sp.cfg.StaticDir)
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	list = []*corev1.Pod{}
	var errs []error
	last := map[string]*corev1.Pod{}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") { // whatever else a file is called, as for the kubelet
			continue
		}
		path := filepath.Join(sp.cfg.StaticDir, e.Name())
		pod, err := sp.read(path)
		switch {
		case errors.Is(err, os.ErrNotExist): // it has just gone, or leads nowhere
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("read the manifest %s: %w", path, err))
			if pod = sp.last[path]; pod == nil {
				continue
			}
		}
		last[path] = pod
		list = append(list, pod)
	}
	sp.last = last
	return list, errors.Join(errs...)
}

func (sp *staticPods) read(path string) (*corev1.Pod, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return sp.static(data)
}

func (sp *staticPods) static(data []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	text, err := yaml.YAMLToJSON(data) // not at once: a word that YAML takes for a bool would become a text
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, pod); err != nil {
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
	stays := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if !slices.Contains(pod.Spec.Tolerations, stays) { // nobody ends it because of the node
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, stays)
	}
	for k, v := range map[string]string{mirrorNote: hash, hashNote: hash, sourceNote: "file"} {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
	}
	if n := resource.Get(sp.cfg.Client.Read(), kinds.Nodes, "", sp.cfg.Name); n != nil {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID, Controller: new(true)}}
	}
	return pod, nil
}
