// Package ttl tells nodes how long they may use a cached Secret or ConfigMap: the larger the cluster, the longer.
//
//	reads   Node
//	writes  Node: the annotation node.alpha.kubernetes.io/ttl
//	rule    every node's annotation is the seconds that its cluster's size calls for
package ttl

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// one is the only key: the cluster.
const one = "nodes"

// Controller is the loop: wake on a node that comes, goes, or has another annotation.
var Controller = &loop.Controller[*corev1.Node]{
	Name:   "ttl",
	For:    kinds.Nodes,
	Lone:   one,
	Wake:   []loop.Wake{{Kind: kinds.Nodes, Keys: changed}},
	Writes: []resource.Kind{kinds.Nodes},
	Rest:   time.Second,
	Gone:   reconcile,
}

func changed(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.Old == nil || c.New == nil || current(c.Old.(*corev1.Node)) != current(c.New.(*corev1.Node)) {
		wake("", one)
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
	nodes := resource.List(c, kinds.Nodes, "") // observe
	want, wrong := plan(nodes)                 // decide
	_, err := loop.All(len(wrong), func(i int) error { return annotate(ctx, c, wrong[i], want) })
	return 0, err
}

// steps are the sizes of clusters, each with its seconds. They overlap, so that a cluster that grows and shrinks by a
// node does not change all of them each time.
var steps = []struct{ least, most, seconds int }{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, 1 << 30, 300},
}

// plan returns what the annotation should be, and the nodes where it is not. What most nodes have stays as long as it
// suits the size.
func plan(nodes []*corev1.Node) (seconds int, wrong []*corev1.Node) {
	have := map[int]int{}
	for _, n := range nodes {
		have[current(n)]++
	}
	best := -1
	for _, s := range steps {
		fits := len(nodes) >= s.least && len(nodes) <= s.most
		if fits && (best < 0 || have[s.seconds] > have[best]) {
			best = s.seconds
		}
	}
	for _, n := range nodes {
		if current(n) != best {
			wrong = append(wrong, n)
		}
	}
	return best, wrong
}

// current is the node's annotation; -1: none that makes sense.
func current(n *corev1.Node) int {
	s, err := strconv.Atoi(n.Annotations[corev1.ObjectTTLAnnotationKey])
	if err != nil || s < 0 {
		return -1
	}
	return s
}

func annotate(ctx context.Context, c *loop.Ctx, n *corev1.Node, seconds int) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{corev1.ObjectTTLAnnotationKey: strconv.Itoa(seconds)}}})
	if err != nil {
		return err
	}
	err = c.Patch(ctx, kinds.Nodes, n, client.Patch{Type: types.StrategicMergePatchType, Data: data})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
