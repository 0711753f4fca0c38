package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/probe"
)

// hookOutput bounds what is kept of a hook's answer.
const hookOutput = 4096

// hook runs a lifecycle handler.
func (sp *stopper) hook(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, h *corev1.LifecycleHandler, id string,
	box *sandbox) error {
	switch {
	case h.Exec != nil:
		code, out, err := sp.Exec(ctx, id, h.Exec.Command, 0)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("command '%s' exited with %d: , message: %q", strings.Join(h.Exec.Command, " "), code, out)
		}
		return nil
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(min(h.Sleep.Seconds, maxGrace)) * time.Second):
			return nil
		}
	case h.HTTPGet != nil:
		return sp.hookHTTP(ctx, pod, spec, h.HTTPGet, box)
	}
	return errors.New("the hook says nothing to do")
}

// hookFailed tells how a container's hook failed, for its status.
func hookFailed(pod *corev1.Pod, name string, h *corev1.LifecycleHandler, err error) string {
	what := "lifecycle hook"
	switch {
	case h.Exec != nil:
		what = fmt.Sprintf("Exec lifecycle hook (%v)", h.Exec.Command)
	case h.HTTPGet != nil:
		what = fmt.Sprintf("HTTP lifecycle hook (%s)", h.HTTPGet.Path)
	}
	return fmt.Sprintf("%s for Container %q in Pod \"%s_%s(%s)\" failed - error: %v", what, name, pod.Name, pod.Namespace, pod.UID, err)
}

// hookHTTP calls the hook's server. Any answer is a good one, whatever its status. One that speaks no TLS is called without.
func (sp *stopper) hookHTTP(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, g *corev1.HTTPGetAction, box *sandbox) error {
	ip := pod.Status.PodIP
	switch {
	case pod.Spec.HostNetwork:
		ip = sp.cfg.Address.String()
	case box != nil && len(box.ips) > 0:
		ip = box.ips[0]
	}
	req, err := probe.Request(ctx, g, spec, ip, "lifecycle")
	if err != nil {
		return err
	}
	err = call(req)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return err
	}
	req.URL.Scheme = "http"
	req.Header.Del("Authorization")
	if err := call(req); err != nil {
		return err
	}
	sp.event(pod, "", corev1.EventTypeWarning, "LifecycleHTTPFallback",
		"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host)
	return nil
}

func call(req *http.Request) error {
	res, err := probe.Client(req).Do(req)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, hookOutput) // what it says is nobody's
	return res.Body.Close()
}

// Exec runs a command in a container and returns its exit code and output. A timeout of 0 leaves it to ctx.
func (sp *stopper) Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (exit int, out []byte, err error) {
	res, err := sp.cfg.Runtime.Containers.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: cmd,
		Timeout: int64((timeout + time.Second - 1) / time.Second)})
	if err != nil {
		return 0, nil, err
	}
	both := append(res.Stdout, res.Stderr...)
	return int(res.ExitCode), both[:min(len(both), hookOutput)], nil
}
