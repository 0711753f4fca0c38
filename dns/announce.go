package dns

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// announceAgain is the pause after a write that failed.
const announceAgain = 5 * time.Second

// announce keeps the annotation on the own Node, which may be made anew while the agent runs. The loop cluster-dns makes endpoints
// of such Nodes.
func announce(ctx context.Context, cfg Config) error {
	return Annotate(ctx, cfg.Client, cfg.Node, strconv.Itoa(int(cfg.Port)), func(err error) {
		cfg.Log.Warn("tell where the cluster DNS listens", "again", announceAgain, "err", err)
	})
}

// Annotate keeps the annotation of a Node at a value until ctx ends; "": there is none.
func Annotate(ctx context.Context, c client.Client, node, value string, failed func(error)) error {
	feed := c.Feed(core.Nodes)
	for {
		if _, err := feed.Next(ctx); err != nil {
			return nil
		}
		for !annotated(resource.Get(c.Read(), core.Nodes, "", node), value) {
			err := patch(ctx, c, node, value)
			if err == nil || apierrors.IsNotFound(err) {
				break
			}
			failed(err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(announceAgain):
			}
		}
	}
}

// annotated says that there is nothing to write: the annotation is there, or the Node is not.
func annotated(n *corev1.Node, value string) bool {
	return n == nil || n.Annotations[wellknown.DNSAnnotation] == value
}

func patch(ctx context.Context, c client.Client, node, value string) error {
	var set any = value
	if value == "" {
		set = nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.DNSAnnotation: set}}})
	if err != nil {
		return err
	}
	_, err = c.Patch(ctx, core.Nodes, "", node, client.Patch{Type: types.MergePatchType, Data: data})
	return err
}
