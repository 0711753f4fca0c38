package machine

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/kinds"
)

// rangesFile keeps the cluster's ranges of cluster IPs, as it told them last: a node may start before its servers do.
const rangesFile = "service-cidrs"

// Of a server that does not answer at the start of a node. Only who knows no ranges waits for it.
const (
	rangesPatience = 10 * time.Second
	rangesAgain    = 250 * time.Millisecond
)

// ranges are the cluster's ranges of cluster IPs, as it tells them, or told before; nil: neither is known.
func (n *Joined) ranges(ctx context.Context, c client.Client) []netip.Prefix {
	ctx, cancel := context.WithTimeout(ctx, rangesPatience)
	defer cancel()
	path := filepath.Join(n.Keys, rangesFile)
	text, _ := os.ReadFile(path) // there is none at the first start
	kept := prefixes(strings.Fields(string(text)))
	for {
		obj, err := c.Get(ctx, kinds.ServiceCIDRs, "", "kubernetes")
		var refused apierrors.APIStatus
		switch {
		case err == nil:
			cidrs := obj.(*networkingv1.ServiceCIDR).Spec.CIDRs
			told := prefixes(cidrs)
			if len(told) == 0 {
				return kept
			}
			if err := errors.Join(os.MkdirAll(n.Keys, 0o700), atomicfile.Write(path, []byte(strings.Join(cidrs, "\n")+"\n"), 0o600)); err != nil {
				n.log().Warn("keep the cluster's ranges of cluster IPs", "err", err)
			}
			return told
		case kept != nil, errors.As(err, &refused) && refused.Status().Code < 500:
			return kept
		}
		select {
		case <-ctx.Done():
			n.log().Warn("the cluster does not tell its ranges of cluster IPs: those of the settings hold until the node starts anew",
				"ranges", n.Services, "err", err)
			return nil
		case <-time.After(rangesAgain):
		}
	}
}

// prefixes are the ranges that can be read.
func prefixes(list []string) (out []netip.Prefix) {
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}
