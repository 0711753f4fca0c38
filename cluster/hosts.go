package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// hosts are all names and addresses under which clients may look for this server: nodes must get no certificate for any.
func (c *Cluster) hosts() []string {
	list := c.keys.Hosts()
	if leaf := c.cred.leaf(); leaf != nil {
		list = append(list, leaf.DNSNames...)
		for _, ip := range leaf.IPAddresses {
			list = append(list, ip.String())
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		own = nil // the certificate's are known
	}
	for _, a := range own {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			list = append(list, ip.IP.String())
		}
	}
	for i := range list {
		list[i] = strings.ToLower(list[i])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// tellHosts adds the names and addresses of this server to those that servers of this cluster ever had, for the loop
// that approves the certificates of nodes.
func (d *frontDoor) tellHosts(ctx context.Context, ready func()) error {
	own := d.local(&auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}, "kube-apiserver")
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	tell := func() error {
		return retry.OnError(retry.DefaultBackoff, again, func() error { return addHosts(ctx, own, d.c.hosts()) })
	}
	err := tell()
	full := apierrors.IsServiceUnavailable(err) // reads are answered, and no certificate can be approved either
	if full {
		ready()
	}
	for full && apierrors.IsServiceUnavailable(err) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(hostsAgain):
		}
		err = tell()
	}
	if err != nil {
		return fmt.Errorf("write the names of this server into the ConfigMap %s: %w", wellknown.ServersName, err)
	}
	if !full {
		ready()
	}
	<-ctx.Done()
	return nil
}

// hostsAgain is the pause between tries on a disk that is full.
const hostsAgain = 2 * time.Second

func addHosts(ctx context.Context, c client.Client, hosts []string) error {
	obj, err := c.Get(ctx, core.ConfigMaps, metav1.NamespaceSystem, wellknown.ServersName)
	if apierrors.IsNotFound(err) {
		_, err = c.Create(ctx, core.ConfigMaps, &corev1.ConfigMap{Data: map[string]string{wellknown.ServersKey: strings.Join(hosts, "\n")},
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: wellknown.ServersName, Annotations: map[string]string{
				"kubernetes.io/description": "Names and addresses that API servers of this cluster have or had. " +
					"No node gets a serving certificate for them."}}})
		return err
	}
	m, ok := obj.(*corev1.ConfigMap)
	if err != nil || !ok {
		return err
	}
	known := strings.Fields(m.Data[wellknown.ServersKey])
	all := slices.Concat(known, hosts)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == len(known) {
		return nil
	}
	next := m.DeepCopy()
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Data[wellknown.ServersKey] = strings.Join(all, "\n")
	_, err = c.Update(ctx, core.ConfigMaps, next, "")
	return err
}
