package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// manifests are files of static pods in the namespace d, each with one container.
func (r *rig) manifests(texts map[string]string) {
	r.t.Helper()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(r.cfg.StaticDir, name+".yaml"), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

func manifest(name, image string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {namespace: d, name: " + name + "}, spec: {containers: [{name: c, image: " + image + "}]}}"
}

// A manifest that can't be read, one that leads nowhere and one that the API refuses hold up no other; and one that was good before is
// kept to.
func TestStaticPodsBesideBadOnes(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.StaticDir = t.TempDir()
		r.manifests(map[string]string{"a": manifest("a", "img"), "b": manifest("b", `""`), "c": "{", "z": manifest("z", "img")})
		if err := os.Symlink("nowhere", filepath.Join(r.cfg.StaticDir, "link.yaml")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(".", filepath.Join(r.cfg.StaticDir, "dir.yaml")); err != nil { // it can be opened, and not read
			t.Fatal(err)
		}
		r.start()
		was := r.reaches("a-n", corev1.PodRunning)
		r.reaches("z-n", corev1.PodRunning)
		r.manifests(map[string]string{"a": manifest("a", "img")[:30]})
		r.rests(time.Minute)
		if p := r.get("a-n"); p == nil || p.UID != was.UID || p.DeletionTimestamp != nil {
			t.Errorf("while its manifest is half written the pod is %+v", p)
		}
		if err := os.Remove(filepath.Join(r.cfg.StaticDir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		r.until("it goes with its manifest", func() bool { return r.get("a-n") == nil })
	})
}

// A static pod whose manifest changed ends within its grace, as any other, before the next one begins.
func TestStaticPodsEndInTheirGrace(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.StaticDir = t.TempDir()
		r.manifests(map[string]string{"a": manifest("a", "img")})
		ended := time.Duration(0)
		r.rt.stop = func(ctx context.Context, _ string) {
			began := time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
			ended = time.Since(began)
		}
		r.start()
		was := r.reaches("a-n", corev1.PodRunning).UID
		r.manifests(map[string]string{"a": manifest("a", "img:2")})
		r.until("it runs anew", func() bool {
			p := r.get("a-n")
			return p != nil && p.UID != was && p.Status.Phase == corev1.PodRunning
		})
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		if ended != 20*time.Second || len(r.rt.stops) != 1 || r.rt.stops[0].Timeout < 20 {
			t.Errorf("it had %s: %v", ended, r.rt.stops)
		}
	})
}

// Any file is a manifest but hidden ones, and a value of another type than the field's makes a bad one, as for the kubelet. What becomes of
// the node ends no static pod: not even the controllers that watch it.
func TestStaticPodsAsTheKubeletReadsThem(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.StaticDir = t.TempDir()
		for name, text := range map[string]string{
			"plain": manifest("plain", "img"), "b.conf": manifest("b", "img"), ".hidden.yaml": manifest("hidden", "img"),
			"typed.yaml": strings.Replace(manifest("typed", "img"), "name: typed", "name: typed, annotations: {x: y}", 1)} {
			if err := os.WriteFile(filepath.Join(r.cfg.StaticDir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		p := r.reaches("plain-n", corev1.PodRunning)
		r.reaches("b-n", corev1.PodRunning)
		if r.get("hidden-n") != nil || r.get("typed-n") != nil {
			t.Error("it runs what is no manifest")
		}
		want := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if !slices.Contains(p.Spec.Tolerations, want) {
			t.Errorf("it tolerates %+v", p.Spec.Tolerations)
		}
	})
}
