package torture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var fills = flag.Int("fills", 3, "how often another program takes all that is left on the server's disk")

// fill takes every block that is left on the disk, at once.
func (d *disk) fill() (free func()) {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.dir, "filler"))
	if err != nil {
		d.t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		d.t.Fatal(err)
	}
	at := int64(0)
	for step := int64(st.Bfree) * st.Bsize; step >= st.Bsize; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, step); {
		case err == nil:
			at += step
		case errors.Is(err, unix.ENOSPC):
			step /= 2
		default:
			d.t.Fatal(err)
		}
	}
	d.t.Cleanup(func() { _ = f.Close() }) // when the test ends before its time
	return func() {
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			d.t.Fatal(err)
		}
	}
}

// load writes until ctx ends, whatever the answers are. It tells of those that no client should get.
func load(ctx context.Context, t *testing.T, c *kubernetes.Clientset, name string) {
	maps := c.CoreV1().ConfigMaps(space)
	for n := 0; ctx.Err() == nil; n++ {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string]string{"v": fmt.Sprint(n, strings.Repeat("x", 200<<10))}}
		_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsServiceUnavailable(err) && !apierrors.IsAlreadyExists(err) {
			t.Errorf("a write while the disk fills: %v", err)
			return
		}
	}
}

// Another program takes all of the disk while the server writes: the server lives, answers reads, refuses writes with a text that says
// why, and takes them again when there is room.
func TestDiskFillsUnderLoad(t *testing.T) {
	d := newDisk(t, "data=ordered")
	v := newVictim(t, filepath.Join(d.dir, "data"))
	v.start()
	c := v.client()
	random := rand.New(rand.NewPCG(*seed, 4))
	for i := range *fills {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		var writing sync.WaitGroup
		for w := range 4 {
			writing.Go(func() { load(ctx, t, c, fmt.Sprint("load", w)) })
		}
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // the load goes on; when the disk is full is the point
		free := d.fill()
		refused := v.until(func(err error) bool { return apierrors.IsServiceUnavailable(err) })
		if !strings.Contains(refused.Error(), "the disk has") {
			t.Errorf("the refusal does not say why: %v", refused)
		}
		if _, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("a read from a full disk: %v", err)
		}
		stop()
		writing.Wait()
		if i%2 == 1 { // a server that is started on a full disk answers reads too
			v.kill()
			v.start()
			if _, err := c.CoreV1().ConfigMaps(space).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("a read from a server that started on a full disk: %v", err)
			}
		}
		free()
		v.until(func(err error) bool { return err == nil })
	}
}

// until writes until the answer is as wanted.
func (v *victim) until(wanted func(error) bool) (err error) {
	v.t.Helper()
	c := v.client()
	for end := time.Now().Add(time.Minute); ; {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a"}}
		if _, err = c.CoreV1().ConfigMaps(space).Create(v.t.Context(), cm, metav1.CreateOptions{}); wanted(err) {
			return err
		}
		if time.Now().After(end) {
			v.t.Fatalf("the answer to a write stays %v", err)
		}
	}
}
