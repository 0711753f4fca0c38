package cluster

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
)

// tokenUses notes on which day tokens in Secrets were last used, and since when that is noted (KEP-2799). Uses that
// come faster than they can be written are noted at the next one.
type tokenUses chan *corev1.Secret

// used implements token.Config.Used: it costs a look at a label, and a write a day.
func (u tokenUses) used(s *corev1.Secret) {
	if s.Labels[core.LegacyTokenLastUsed] == today() {
		return
	}
	select {
	case u <- s:
	default:
	}
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

// trackTokens writes what tokenUses tells until ctx ends.
func (d *frontDoor) trackTokens(ctx context.Context, ready func()) error {
	ready()
	own := d.local(&auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}, "kube-apiserver")
	_, err := own.Create(ctx, core.ConfigMaps, &corev1.ConfigMap{Data: map[string]string{core.LegacyTokenSince: today()},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: core.LegacyTokenTracking}})
	if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		d.log.Warn("note since when the use of tokens is tracked", "err", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-d.uses:
			if err := noteUse(ctx, own, s); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				d.log.Warn("note the use of a token", "kind", "Secret", "object", s.Namespace+"/"+s.Name, "err", err)
			}
		}
	}
}

func noteUse(ctx context.Context, c client.Client, s *corev1.Secret) error {
	if now := c.Read().Lookup(core.Secrets, s.Namespace, s.Name); now != nil && now.GetLabels()[core.LegacyTokenLastUsed] == today() {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID,
		"labels": map[string]string{core.LegacyTokenLastUsed: today()}}})
	if err != nil {
		return err
	}
	_, err = c.Patch(ctx, core.Secrets, s.Namespace, s.Name, client.Patch{Type: types.MergePatchType, Data: data})
	return err
}
