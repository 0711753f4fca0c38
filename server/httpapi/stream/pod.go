package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pod reads the pod that the URL names.
func (c *connection) pod() (*corev1.Pod, error) {
	req := *c.req
	req.Sub = ""
	e, err := c.h.cfg.Ops.Get(c.r.Context(), &req, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("expected a pod, not a %T", e.Object))
	}
	return pod, nil
}

// agent finds the agent of the pod's node and the URL of path there.
func (c *connection) agent(ctx context.Context, node, path string, params url.Values) (*url.URL, http.RoundTripper, error) {
	if c.h.cfg.Nodes == nil {
		return nil, nil, apierrors.NewServiceUnavailable("no node agent is connected")
	}
	at, err := c.h.cfg.Nodes.Endpoint(ctx, node)
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("address of node %s: %w", node, err))
	}
	u.Path, u.RawQuery = path, params.Encode()
	return u, at.Transport, nil
}

// admitted asks admission whether the connection may be made.
func (c *connection) admitted(opts runtime.Object) error {
	if c.h.cfg.Connect == nil {
		return nil
	}
	return c.h.cfg.Connect(c.r.Context(), c.req, opts)
}

// container settles which container of the pod is meant.
func container(pod *corev1.Pod, name string) (string, error) {
	all := [3][]string{}
	for i := range pod.Spec.Containers {
		all[0] = append(all[0], pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		all[1] = append(all[1], pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		all[2] = append(all[2], pod.Spec.EphemeralContainers[i].Name)
	}
	if name != "" {
		for _, names := range all {
			for _, n := range names {
				if n == name {
					return name, nil
				}
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	switch len(all[0]) {
	case 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	case 1:
		return all[0][0], nil
	}
	return "", apierrors.NewBadRequest(choice(pod.Name, all))
}

func choice(pod string, all [3][]string) string {
	text := fmt.Sprintf("a container name must be specified for pod %s, choose one of: [%s]", pod, strings.Join(all[0], " "))
	if len(all[1]) > 0 {
		text += fmt.Sprintf(" or one of the init containers: [%s]", strings.Join(all[1], " "))
	}
	if len(all[2]) > 0 {
		text += fmt.Sprintf(" or one of the ephemeral containers: [%s]", strings.Join(all[2], " "))
	}
	return text
}

// responder answers the errors of proxied connections as Status.
type responder struct{ c *connection }

// Error implements proxy.ErrorResponder.
func (p responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		err = apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach service: %v", err))
	}
	p.c.h.cfg.Send.Fail(w, r, err)
}
