// Package apiserveridentity says which API servers there are, by a Lease for each.
//
//	reads   the Leases in kube-system that carry the label of API servers
//	writes  Lease: create, update, delete
//	rule    this server's Lease names it and was renewed not long ago; one that has expired is deleted
//
// Every server runs this loop for itself.
package apiserveridentity

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// The names of the Leases' namespace and label, and for how long one holds.
const (
	namespace = metav1.NamespaceSystem
	label     = "apiserver.kubernetes.io/identity"
	server    = "kube-apiserver"
	lifetime  = time.Hour
)

// pause is the time between two renewals of a Lease.
//
// Unlike Kubernetes, it is ten minutes, not ten seconds: nobody looks at more than that a Lease is there and has not expired, and each
// renewal is a write to the disk.
const pause = lifetime / 6

// Self is an API server.
type Self struct {
	Host   string // its name among servers; it keeps it when it starts again
	Holder string // the process
}

// ID is the name of the server's Lease, as upstream makes it of a host's name.
func (s Self) ID() string {
	sum := sha256.Sum256([]byte(s.Host))
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Controller returns the loop of one server.
func Controller(self Self) *loop.Controller[*coordinationv1.Lease] {
	return &loop.Controller[*coordinationv1.Lease]{
		Name:   "apiserver-identity",
		For:    coordination.Leases,
		Lone:   self.ID(),
		Writes: []resource.Kind{coordination.Leases},
		Gone: func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
			d := plan(self, leases(c), c.Now())
			return pause, act(ctx, c, d)
		},
	}
}

// leases are those that a server may have, whatever their labels, and the others of servers.
func leases(read resource.Reader) (list []*coordinationv1.Lease) {
	for _, l := range resource.List(read, coordination.Leases, namespace) {
		if l.Labels[label] == server || strings.HasPrefix(l.Name, "apiserver-") {
			list = append(list, l)
		}
	}
	return list
}

// A todo lists the writes that are missing.
type todo struct {
	create, update *coordinationv1.Lease
	remove         []*coordinationv1.Lease
}

// plan is pure.
func plan(self Self, list []*coordinationv1.Lease, now time.Time) (d todo) {
	var own *coordinationv1.Lease
	for _, l := range list {
		switch {
		case l.Name == self.ID():
			own = l
		case l.Labels[label] == server && expired(l, now):
			d.remove = append(d.remove, l)
		}
	}
	if own == nil {
		d.create = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: self.ID()}}
		renew(d.create, self, now)
	} else if s := own.Spec; s.HolderIdentity == nil || *s.HolderIdentity != self.Holder || s.RenewTime == nil ||
		own.Labels[label] != server || now.Sub(s.RenewTime.Time) >= pause/2 || s.RenewTime.After(now) {
		d.update = resource.Clone(own)
		renew(d.update, self, now)
	}
	return d
}

func renew(l *coordinationv1.Lease, self Self, now time.Time) {
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[label], l.Labels[corev1.LabelHostname] = server, self.Host
	seconds := int32(lifetime / time.Second)
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &self.Holder, &seconds, &metav1.MicroTime{Time: now}
}

func expired(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	return s.RenewTime == nil || s.LeaseDurationSeconds == nil ||
		s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second).Before(now)
}

func act(ctx context.Context, c *loop.Ctx, d todo) error {
	if d.create != nil {
		if _, err := c.Create(ctx, coordination.Leases, d.create); err != nil {
			return err
		}
	}
	if d.update != nil {
		if err := c.Update(ctx, coordination.Leases, d.update); err != nil {
			return err
		}
	}
	for _, l := range d.remove {
		if err := c.Delete(ctx, coordination.Leases, l); err != nil {
			return err
		}
	}
	return nil
}
