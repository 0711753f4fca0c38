package csi

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/test/csidriver"
	"github.com/kloop-dev/kloop/test/need"
)

// steps are those of two pods that use one volume and go.
func (r *rig) steps(pv *corev1.PersistentVolume, block bool) []func() error {
	mount := func(uid string) func() error {
		return func() error {
			got, err := r.Mount(r.ctx, ask(uid, pv, block))
			if err == nil && !block && os.Getuid() == 0 {
				return os.WriteFile(filepath.Join(got.Path, uid), []byte(uid), 0o600)
			}
			return err
		}
	}
	unmount := func(uid types.UID) func() error { return func() error { return r.Unmount(r.ctx, uid) } }
	return []func() error{mount("u1"), mount("u2"), unmount("u1"), unmount("u2"), func() error { return r.Sweep(r.ctx) }}
}

// end checks what is left at the end: nothing but the data.
func (r *rig) end(pv *corev1.PersistentVolume, block bool) {
	r.Helper()
	for range 3 {
		r.check(r.Sweep(r.ctx))
	}
	r.clean()
	for _, uid := range []string{"u1", "u2"} {
		_, err := os.Stat(filepath.Join(r.d.Directory(pv.Spec.CSI.VolumeHandle), uid))
		if !block && os.Getuid() == 0 && err != nil {
			r.Error("data is lost:", err)
		}
	}
}

var rpcs = []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}

// TestFaults has every call of the driver fail in every way, once: what was begun is finished, nothing is mounted twice, nothing is left.
func TestFaults(t *testing.T) {
	for _, rpc := range rpcs {
		for _, nth := range []int{1, 2} {
			for name, f := range map[string]csidriver.Fault{
				"refused":         {Code: codes.Internal},
				"unavailable":     {Code: codes.Unavailable},
				"done, no answer": {Code: codes.Unavailable, Late: true},
				"aborted":         {Code: codes.Aborted, Late: true},
				"hangs":           {Hang: true},
				"done, hangs":     {Hang: true, Late: true},
				"dies":            {Hang: true, Do: func() {}},
				"does it, dies":   {Hang: true, Late: true, Do: func() {}},
			} {
				for _, block := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %d %s %v", rpc, nth, name, block), func(t *testing.T) { oneFault(t, rpc, nth, f, block) })
				}
			}
		}
	}
}

func oneFault(t *testing.T, rpc string, nth int, f csidriver.Fault, block bool) {
	t.Parallel()
	r := newRig(t, csidriver.Config{})
	if f.Hang && f.Do == nil {
		r.within = 300 * time.Millisecond
		r.start()
	}
	seen, died := 0, false
	if f.Do != nil {
		f.Do = func() { died = true; go r.d.Stop() }
	}
	r.d.Fail(func(name string) *csidriver.Fault {
		if name == rpc {
			seen++
		}
		if name != rpc || seen != nth {
			return nil
		}
		seen++ // once
		return &f
	})
	pv := r.volume("pv")
	for i, step := range r.steps(pv, block) {
		var err error
		for range 5 {
			if err = step(); err == nil {
				break
			}
			if died {
				r.restartDriver()
				died = false
			}
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if died {
		r.restartDriver()
	}
	r.end(pv, block)
}

// TestAgentDies kills the agent while a call is under way, before and after the driver carried it out. The next one goes on, or takes
// all down when the pods are gone meanwhile.
func TestAgentDies(t *testing.T) {
	for _, rpc := range rpcs {
		for _, nth := range []int{1, 2} {
			for _, late := range []bool{false, true} {
				for _, gone := range []bool{false, true} {
					for _, block := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s %d late %v gone %v block %v", rpc, nth, late, gone, block), func(t *testing.T) {
							t.Parallel()
							agentDies(t, rpc, nth, late, gone, block)
						})
					}
				}
			}
		}
	}
}

func agentDies(t *testing.T, rpc string, nth int, late, gone, block bool) {
	r := newRig(t, csidriver.Config{})
	seen, died := 0, false
	r.d.Fail(func(name string) *csidriver.Fault {
		if name == rpc {
			seen++
		}
		if name != rpc || seen != nth {
			return nil
		}
		seen++
		return &csidriver.Fault{Late: late, Hang: true, Do: func() { died = true; r.kill() }}
	})
	pv := r.volume("pv")
	pv.Spec.CSI.Driver = r.d.Name
	steps := r.steps(pv, block)
	for i := 0; i < len(steps); i++ {
		err := steps[i]()
		if !died {
			r.check(err)
			continue
		}
		died = false
		r.start()
		if gone && i < 2 {
			i = 1 // both pods are gone
		} else {
			i-- // once more
		}
	}
	if gone {
		for _, uid := range []string{"u1", "u2"} { // so that the data are those of a run without a fault
			dir := r.d.Directory("h-pv")
			_ = os.MkdirAll(dir, 0o750)
			_ = os.WriteFile(filepath.Join(dir, uid), nil, 0o600)
		}
	}
	r.end(pv, block)
}

// TestLeftHalf begins from what an agent may leave that dies between two changes of the disk.
func TestLeftHalf(t *testing.T) {
	for name, leave := range map[string]func(r *rig){
		"a pod's directory, no record": func(r *rig) { r.check(os.MkdirAll(r.mountDir("u1", "pv"), 0o750)) },
		"a record that is not whole": func(r *rig) {
			r.check(os.MkdirAll(r.mountDir("u1", "pv"), 0o750))
			r.check(os.WriteFile(filepath.Join(r.mountDir("u1", "pv"), dataFile+".new"), []byte("{"), 0o600))
		},
		"a record that can't be read": func(r *rig) {
			r.check(os.MkdirAll(r.mountDir("u1", "pv"), 0o750))
			r.check(os.WriteFile(filepath.Join(r.mountDir("u1", "pv"), dataFile), []byte("{"), 0o600))
		},
		"a record, no call": func(r *rig) {
			_, err := write(r.mountDir("u1", "pv"), data{Driver: r.d.Name, Handle: "h-pv", Spec: "pv", Lifecycle: persistent})
			r.check(err)
		},
		"a device's record, no directory": func(r *rig) {
			_, err := write(r.stageDir(volumeID{r.d.Name, "h-pv"}), data{Driver: r.d.Name, Handle: "h-pv"})
			r.check(err)
		},
		"a device's record that can't be read": func(r *rig) {
			dir := r.stageDir(volumeID{r.d.Name, "h-pv"})
			r.check(os.MkdirAll(filepath.Join(dir, "globalmount"), 0o750))
			r.check(os.WriteFile(filepath.Join(dir, dataFile), nil, 0o600))
		},
		"a block device's record that can't be read": func(r *rig) {
			r.check(os.MkdirAll(r.blockDir("pv", "data"), 0o750))
			r.check(os.WriteFile(filepath.Join(r.blockDir("pv", "data"), dataFile), nil, 0o600))
			r.check(os.MkdirAll(r.linkTo("u1", ""), 0o750))
			r.check(os.Symlink("x", r.linkTo("u1", "pv")))
		},
		"unpublished, the record is left": func(r *rig) {
			r.mounts(ask("u1", r.volume("pv"), false))
			text, err := os.ReadFile(filepath.Join(r.mountDir("u1", "pv"), dataFile))
			r.check(err)
			r.check(r.Unmount(r.ctx, "u1"))
			r.check(os.MkdirAll(r.mountDir("u1", "pv"), 0o750))
			r.check(os.WriteFile(filepath.Join(r.mountDir("u1", "pv"), dataFile), text, 0o600))
		},
		"a block device's record, no link": func(r *rig) {
			_, err := write(r.blockDir("pv", "data"), data{Driver: r.d.Name, Handle: "h-pv"})
			r.check(err)
		},
		"a link, the record is gone": func(r *rig) {
			r.check(os.MkdirAll(r.linkTo("u1", ""), 0o750))
			r.check(os.Symlink("x", r.linkTo("u1", "pv")))
		},
		"staged, not published": func(r *rig) {
			r.d.Fail(func(rpc string) *csidriver.Fault {
				if rpc != "NodePublishVolume" {
					return nil
				}
				return &csidriver.Fault{Code: codes.Unavailable}
			})
			if _, err := r.Mount(r.ctx, ask("u1", r.volume("pv"), false)); err == nil {
				r.Error("no error")
			}
			r.d.Fail(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, csidriver.Config{})
			leave(r)
			r.start()
			r.check(r.Unmount(r.ctx, "u1"))
			r.check(r.Sweep(r.ctx))
			r.clean()
		})
	}
}

// TestNoDriver keeps what is mounted, and its record, while the driver is away.
func TestNoDriver(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	got := r.mounts(ask("u1", r.volume("pv"), false))
	r.start()
	r.Drivers.of = map[string]*driver{}
	for range 2 {
		if err := r.Unmount(r.ctx, "u1"); !IsWaiting(err) {
			t.Errorf("without its driver: %v", err)
		}
		r.check(r.Sweep(r.ctx))
	}
	if _, err := os.Stat(got.Path); err != nil || r.d.Published("h-pv") != 1 {
		t.Errorf("it is gone: %v", err)
	}
	r.start()
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}

// TestLyingDriver removes nothing below a mount that the driver says it has taken away.
func TestLyingDriver(t *testing.T) {
	need.BeRoot(t)
	r := newRig(t, csidriver.Config{})
	got := r.mounts(ask("u1", r.volume("pv"), false))
	r.check(os.WriteFile(filepath.Join(got.Path, "kept"), nil, 0o600))
	r.d.Fail(func(string) *csidriver.Fault { return &csidriver.Fault{Lie: true} })
	if err := r.Unmount(r.ctx, "u1"); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(r.d.Directory("h-pv"), "kept")); err != nil {
		t.Error("data is lost:", err)
	}
	r.d.Fail(nil)
	r.check(r.Unmount(r.ctx, "u1"))
	r.clean()
}

// TestMany has many pods mount and unmount a few volumes at once while the driver fails now and then.
func TestMany(t *testing.T) {
	r := newRig(t, csidriver.Config{})
	var calls atomic.Uint64
	r.d.Fail(func(string) *csidriver.Fault {
		switch calls.Add(1) % 7 {
		case 3:
			return &csidriver.Fault{Code: codes.Unavailable, Late: true}
		case 5:
			return &csidriver.Fault{Code: codes.Internal}
		}
		return nil
	})
	var pvs []*corev1.PersistentVolume
	for i := range 3 {
		pvs = append(pvs, r.volume(fmt.Sprint("pv", i)))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for round := range 10 {
				uid := fmt.Sprintf("u%d-%d", i, round)
				for _, pv := range pvs[rnd.IntN(len(pvs)):] {
					q := ask(uid, pv, false)
					q.Name = pv.Name
					if _, err := r.Mount(r.ctx, q); err == nil && r.d.Published(pv.Spec.CSI.VolumeHandle) == 0 {
						t.Errorf("%s is mounted, and is not published", pv.Name)
					}
				}
				if rnd.IntN(4) == 0 {
					if err := r.Sweep(r.ctx); err != nil {
						t.Error(err)
					}
				}
				var err error
				for range 50 {
					if err = r.Unmount(r.ctx, types.UID(uid)); err == nil {
						break
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.d.Fail(nil)
	r.check(r.Sweep(r.ctx))
	r.clean()
}
