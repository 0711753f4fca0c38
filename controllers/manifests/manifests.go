// Package manifests keeps the objects that the files of a directory on the server's machine describe: an auto-deploy directory,
// as k3s has one in server/manifests.
//
//	reads   the directory; ConfigMap kube-system/manifests, the members of its ApplySet, of any kind
//	writes  every kind: apply, delete; ConfigMap kube-system/manifests
//	rule    what a file describes is as the file says, a change by others is taken back; what a file, or the removal of one, has
//	        lost is deleted; a file that can't be read loses nothing
package manifests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/applyset"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// every is the interval between reads of the files. A notice from the file system would be sooner, but not for network file systems, and
// who edits a file has not finished with its first write.
const every = 2 * time.Second

// set is the ApplySet of all servers together: their origins keep them apart.
var set = applyset.Set{Namespace: metav1.NamespaceSystem, Name: "manifests", Tooling: "kloop-manifests/v1"}

// Controller returns the loop: one key. dir need not exist yet; server tells this machine's files from those of other servers.
func Controller(dir, server string) *loop.Controller[*corev1.ConfigMap] {
	d := &directory{path: dir, server: server, sync: applyset.Syncer{Set: set}}
	id := set.ID()
	one := func(wake func(ns, name string)) { wake(set.Namespace, set.Name) }
	return &loop.Controller[*corev1.ConfigMap]{
		Name:    "manifests",
		For:     kinds.ConfigMaps,
		Skip:    func(m *corev1.ConfigMap) bool { return m.Namespace != set.Namespace || m.Name != set.Name },
		Find:    func(_ resource.Reader, wake func(ns, name string)) { one(wake) },
		Workers: 1,
		Rest:    time.Second,
		Wake: []loop.Wake{{Keys: func(c client.Change, _ resource.Reader, wake func(ns, name string)) {
			if c.Object().GetLabels()[applyset.PartOf] == id {
				one(wake)
			}
		}}},
		Writes: loop.Anything,
		Reconcile: func(ctx context.Context, c *loop.Ctx, _ *corev1.ConfigMap) (time.Duration, error) {
			return d.reconcile(ctx, c)
		},
		Gone: func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) { return d.reconcile(ctx, c) },
	}
}

// A directory is the source, and what its loop remembers.
type directory struct {
	path, server string
	sync         applyset.Syncer
	print        string         // of the listing that was read last
	files        applyset.Files // what it said
	told         string         // the last problems that were told as an event
}

// observe reads the files, if they may have changed.
func (d *directory) observe() (applyset.Files, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return applyset.Files{}, err
	}
	defer root.Close()
	l, err := applyset.List(root.FS())
	if err != nil || l.Print == d.print {
		return d.files, err
	}
	r, err := applyset.Read(root.FS(), l, d.server)
	if err == nil {
		d.files, d.print = r, l.Print
	}
	return r, err
}

func (d *directory) reconcile(ctx context.Context, c *loop.Ctx) (time.Duration, error) {
	files, err := d.observe()
	if errors.Is(err, fs.ErrNotExist) {
		return every, nil // no directory: it says nothing, not even that all is lost
	}
	if err != nil {
		return 0, fmt.Errorf("read the manifests: %w", err)
	}
	report, err := d.sync.Sync(ctx, c, applyset.Source{Want: files.Want, Lost: files.Lost(d.server)}) // decide, act
	if err != nil {
		return 0, err
	}
	for _, file := range slices.Sorted(maps.Keys(files.Bad)) {
		report.Problems = append(report.Problems, files.Bad[file])
	}
	d.tell(c, report)
	switch {
	case report.Err() != nil:
		c.Waiting("%v", report.Err())
	case len(report.Kept) > 0:
		c.Waiting("no file describes %v any more, and it is kept for what goes with it: delete it, or annotate it with %s=false",
			report.Kept, applyset.KeepNote)
	}
	return every, nil
}

// tell makes an event of problems that are new.
func (d *directory) tell(c *loop.Ctx, r applyset.Report) {
	text := ""
	if err := r.Err(); err != nil && !r.Passing() {
		text = err.Error()
	}
	parent := c.Lookup(kinds.ConfigMaps, set.Namespace, set.Name)
	if text != "" && text != d.told && parent != nil {
		c.Event(kinds.ConfigMaps, parent, corev1.EventTypeWarning, "ManifestsFailed", "%s", text)
	}
	d.told = text
}
